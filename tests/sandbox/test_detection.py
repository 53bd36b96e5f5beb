"""What is read from a repository's files: dependencies and the test command."""

from __future__ import annotations

import pytest

from agentforge.core.errors import UsageError
from agentforge.core.ports import Environment, TestRequest
from agentforge.sandbox.dependencies import plan_dependencies
from agentforge.sandbox.lockfiles import lock_constraints
from agentforge.sandbox.python_needs import KNOWN, PythonNeed
from agentforge.sandbox.test_command import PYTEST, detect_test_command, plan_pytest
from tests.sandbox.conftest import make_tree


def steps(files: dict[str, str], subdirectory: str = "") -> list[tuple[tuple[str, ...], bool]]:
    plan = plan_dependencies(make_tree(dict(files)), subdirectory)
    return [(step.arguments, step.optional) for step in plan.steps]


def test_nothing_to_install() -> None:
    assert plan_dependencies(make_tree({"a.py": "", "tests/test_a.py": ""})).empty


def test_pyproject_with_extra_and_group() -> None:
    text = '[project]\nname="a"\ndependencies=["six"]\n'
    text += '[project.optional-dependencies]\ntests=["x"]\ndocs=["y"]\n'
    plan = plan_dependencies(make_tree({"pyproject.toml": text}))
    assert (plan.project, plan.extra, plan.dependencies) == (True, "tests", ("six", "x"))
    grouped = text + '[dependency-groups]\ndev=["z"]\n'
    assert steps({"pyproject.toml": grouped}) == [(("--group", "dev"), True)]


def test_setup_cfg_and_setup_py() -> None:
    cfg = "[metadata]\nname = a\n[options]\ninstall_requires =\n  six\n  # no\n"
    cfg += "[options.extras_require]\ntest = x\n"
    plan = plan_dependencies(make_tree({"setup.cfg": cfg}))
    assert (plan.project, plan.extra, plan.dependencies) == (True, "test", ("six",))
    script = "setup(extras_require={'testing': ['x']})\nraise SystemExit('never run')\n"
    plan = plan_dependencies(make_tree({"setup.py": script}))
    assert (plan.project, plan.extra) == (True, "testing")


def test_requirements_files() -> None:
    assert steps({"requirements.txt": "six", "requirements-test.txt": "x", "requirements-docs.txt": "y"}) == [
        (("-r", "requirements.txt"), False),
        (("-r", "requirements-test.txt"), True),
    ]
    project = {"setup.py": "", "requirements.txt": "six", "requirements/dev.txt": "x"}
    assert steps({**project, "setup.py": "setup()"}) == [(("-r", "requirements/dev.txt"), True)]


def test_tox_and_nox_hints_are_the_last_resort() -> None:
    tox = "[testenv]\ndeps =\n  pytest-mock>=3\n  -rrequirements.txt\n  py27: mock\n  {env:X}\n"
    assert steps({"tox.ini": tox}) == [(("pytest-mock>=3",), True)]
    nox = "def tests(session):\n    session.install('freezegun', '-e', '.')\n"
    nox += "def docs(session):\n    session.install('sphinx')\n"
    assert steps({"noxfile.py": nox}) == [(("freezegun",), True)]
    assert steps({"noxfile.py": "def tests(session:\n"}) == []


def test_poetry_groups() -> None:
    text = '[tool.poetry]\nname="a"\n[tool.poetry.group.test.dependencies]\n'
    text += 'freezegun="^1.2"\nx={version="~2"}\ny="*"\n'
    assert steps({"pyproject.toml": text}) == [(("freezegun>=1.2", "x>=2", "y"), True)]


def test_pipfile_and_tools_of_their_own() -> None:
    text = '[packages]\nsix="*"\nhere={path="."}\n[dev-packages]\nx={version="==1.2",extras=["a","b"]}\n'
    assert steps({"Pipfile": text}) == [(("six",), False), (("x[a,b]==1.2",), True)]
    uv = '[project]\nname="a"\n[tool.uv]\ndev-dependencies=["x>=1"]\n'
    assert steps({"pyproject.toml": uv}) == [(("x>=1",), True)]
    pdm = '[project]\nname="a"\n[tool.pdm.dev-dependencies]\ntest=["y"]\n'
    assert steps({"pyproject.toml": pdm}) == [(("y",), True)]
    hatch = '[project]\nname="a"\n[tool.hatch.envs.default]\ndependencies=["z", "{root:uri}/x"]\n'
    assert steps({"pyproject.toml": hatch}) == [(("z",), True)]


def test_extras_of_a_script_are_those_it_passes() -> None:
    script = "A = {'dev': 1}\nsetup(extras_require={'docs': ['x'], 'testing': ['y']})\n"
    assert plan_dependencies(make_tree({"setup.py": script})).extra == "testing"
    named = "E = {}\nE['test'] = ['x']\nsetup(extras_require=E)\n"
    assert plan_dependencies(make_tree({"setup.py": named})).extra == "test"


LOCKS = {
    "poetry.lock": (
        '[[package]]\nname = "six"\nversion = "1.16.0"\n\n'
        '[[package]]\nname = "mine"\nversion = "0.1"\n[package.source]\ntype = "directory"\nurl = ".."\n'
    ),
    "uv.lock": (
        'version = 1\n[[package]]\nname = "six"\nversion = "1.16.0"\n'
        'source = { registry = "https://index.example/simple" }\n'
        '[[package]]\nname = "mine"\nversion = "0.1"\nsource = { editable = "." }\n'
    ),
    "Pipfile.lock": '{"default": {"six": {"version": "==1.16.0"}, "mine": {"path": "."}}, "develop": {}}',
}


@pytest.mark.parametrize("name", LOCKS)
def test_lock_files_choose_versions(name: str) -> None:
    plan = plan_dependencies(make_tree({name: LOCKS[name], "requirements.txt": "six"}))
    assert (plan.lock, plan.constraints) == (name, ("six==1.16.0",))
    assert name in plan.files, "another lock is another environment"


def test_a_lock_never_takes_our_tools_away_or_breaks_the_build() -> None:
    old = '[[package]]\nname="pytest"\nversion="5.4.3"\n[[package]]\nname="pytest-mock"\nversion="1.0"\n'
    old += '[[package]]\nname="pip"\nversion="9.0"\n[[package]]\nname="six"\nversion="1.16.0"\n'
    assert lock_constraints("poetry.lock", old) == ("six==1.16.0",)
    twice = '[[package]]\nname="numpy"\nversion="1.24"\n[[package]]\nname="numpy"\nversion="2.0"\n'
    assert lock_constraints("uv.lock", twice) == ()
    evil = '[[package]]\nname="six\\n--index-url=x"\nversion="1"\n[[package]]\nname="a"\nversion="1 --pre"\n'
    assert lock_constraints("uv.lock", evil) == ()
    for broken in ("[[package", "package = 3", "{}", "[1]", ""):
        assert lock_constraints("poetry.lock", broken) == lock_constraints("Pipfile.lock", broken) == ()


@pytest.mark.parametrize(
    ("specifier", "allowed", "chosen"),
    [
        ("", {"3.8", "3.11", "3.14"}, "3.11"),
        (">=3.7", {"3.8", "3.11"}, "3.11"),
        (">=3.6,<3.10", {"3.8", "3.9"}, "3.9"),
        (">=3.12", {"3.12", "3.14"}, "3.14"),
        ("<=3.9", {"3.8", "3.9"}, "3.9"),
        ("==3.9.*", {"3.9"}, "3.9"),
        ("~=3.8", {"3.8", "3.11", "3.14"}, "3.11"),
        ("~=3.8.2", {"3.8"}, "3.8"),
        ("^3.9", {"3.9", "3.11"}, "3.11"),
        ("~3.10", {"3.10"}, "3.10"),
        (">=3.8, !=3.11.*", {"3.8", "3.12"}, "3.14"),
        (">=2.7, !=3.0.*, !=3.1.*, !=3.2.*", {"3.8", "3.11"}, "3.11"),
        ("<3.8 || >=3.13", {"3.13", "3.14"}, "3.14"),
        (">3.10.2,<3.11", {"3.10"}, "3.10"),
        ("<4", {"3.8", "3.11"}, "3.11"),
        ("<3", set(), ""),
        ("unreadable", {"3.11"}, "3.11"),
    ],
)
def test_python_needs(specifier: str, allowed: set[str], chosen: str) -> None:
    need = PythonNeed(specifier, "x")
    assert allowed <= {version for version in KNOWN if need.allows(version)}
    assert need.choose() == chosen


@pytest.mark.parametrize(
    ("files", "specifier", "source"),
    [
        ({"pyproject.toml": '[project]\nrequires-python=">=3.9"\n'}, ">=3.9", "pyproject.toml"),
        (
            {"pyproject.toml": '[tool.poetry.dependencies]\npython="^3.7"\n'},
            "^3.7",
            "pyproject.toml (poetry)",
        ),
        ({"setup.cfg": "[options]\npython_requires = <3.9\n"}, "<3.9", "setup.cfg"),
        ({"setup.py": "setup(python_requires='~=3.6')"}, "~=3.6", "setup.py"),
        ({"setup.py": "setup(python_requires=WANTED)"}, "", ""),
        ({"Pipfile": '[requires]\npython_version = "3.10"\n'}, "==3.10.*", "Pipfile"),
        ({".python-version": "3.9.18\n"}, "==3.9.*", ".python-version"),
        ({".python-version": "pypy3\n"}, "", ""),
        ({"a.py": ""}, "", ""),
    ],
)
def test_where_the_python_version_is_said(files: dict[str, str], specifier: str, source: str) -> None:
    need = plan_dependencies(make_tree(dict(files))).need
    assert (need.specifier, need.source) == (specifier, source)


def test_broken_files_are_not_fatal_and_subdirectories_are_their_own() -> None:
    files = {"pyproject.toml": "[project", "setup.cfg": "no section", "sub/requirements.txt": "six"}
    assert plan_dependencies(make_tree(dict(files))).empty
    assert steps(files, "sub") == [(("-r", "requirements.txt"), False)]


@pytest.mark.parametrize(
    ("command", "framework", "argv"),
    [
        (None, "pytest", PYTEST),
        ("pytest -q tests", "pytest", (*PYTEST, "-q", "tests")),
        ("python3 -m pytest tests", "pytest", ("python3", "-m", "pytest", "tests")),
        ("make check", "command", ("make", "check")),
        ("cd sub && pytest", "command", ("sh", "-c", "cd sub && pytest")),
        ("A=1 pytest", "command", ("sh", "-c", "A=1 pytest")),
    ],
)
def test_commands(command: str | None, framework: str, argv: tuple[str, ...]) -> None:
    found = detect_test_command(make_tree({"tests/test_a.py": ""}), command)
    assert (found.framework, found.argv) == (framework, argv)


@pytest.mark.parametrize("command", ["", "  ", "pytest 'x"])
def test_unreadable_commands_are_usage_errors(command: str) -> None:
    with pytest.raises(UsageError):
        detect_test_command(make_tree({}), command)


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({"pytest.ini": ""}, "pytest.ini"),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "pyproject.toml"),
        ({"tox.ini": "[pytest]\n"}, "tox.ini"),
        ({"setup.cfg": "[tool:pytest]\n"}, "setup.cfg"),
        ({"tests/test_a.py": ""}, "tests/"),
        ({"test.py": ""}, "test.py"),
        ({"a.py": ""}, "nothing says otherwise"),
    ],
)
def test_detection_says_why(files: dict[str, str], word: str) -> None:
    assert word in detect_test_command(make_tree(dict(files)), None).notes[0]


def test_a_test_file_pytest_would_not_look_for_is_named() -> None:
    tree = make_tree({"test.py": "", "a/b.py": ""})
    assert detect_test_command(tree, None).argv == (*PYTEST, "test.py")
    assert detect_test_command(make_tree({"test.py": "", "tests/test_b.py": ""}), None).argv == PYTEST


def test_requests_become_files_and_a_selection() -> None:
    tree = make_tree({"tests/test_a.py": "", "tests/test_b.py": ""})
    environment = Environment(image="x", test_command=(*PYTEST, "-q", "tests"))
    ids = ("tests/test_a.py::test_x", "tests/test_a.py::T::test_y[1]", "tests/gone.py::test_z")
    call = plan_pytest(environment, tree, TestRequest(targets=ids), 15.0)
    assert call.targets == ("/workspace/repo/tests/test_a.py",)
    assert call.select == ids[:2]
    assert "tests" not in call.arguments
    assert "-q" in call.arguments
    everything = plan_pytest(environment, tree, TestRequest(), 15.0)
    assert everything.targets == ()
    assert "tests" in everything.arguments
