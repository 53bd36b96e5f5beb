"""Environment images: built once with network, used without; the candidate's code is what runs."""

from __future__ import annotations

import asyncio
import os
import secrets
import textwrap
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import ImageError, UsageError
from agentforge.core.ports import Environment, EnvironmentSpec, TestRequest
from agentforge.core.report import Cause
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox import DockerSandbox, labels
from agentforge.sandbox.prune import prune
from tests.sandbox.conftest import make_tree

pytestmark = pytest.mark.docker


def source_layout(salt: str) -> Tree:
    """A package in src/ with a dependency, an entry point and a module that its build generates."""
    pyproject = f"""
        [build-system]
        requires = ["setuptools>=64"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "sample-{salt}"
        version = "1.4.2"
        dependencies = ["six"]
        [project.optional-dependencies]
        test = ["iniconfig"]
        [tool.pytest.ini_options]
        addopts = "--no-such-option"
    """
    setup = """
        from pathlib import Path
        from setuptools import setup
        Path("src/sample/_generated.py").write_text("VALUE = 42\\n")
        setup()
    """
    tests = f"""
        from importlib.metadata import version
        import iniconfig, six, sample
        from sample import _generated
        def test_dependency(): assert sample.text("x") and six.PY3
        def test_metadata(): assert version("sample-{salt}") == "1.4.2"
        def test_generated(): assert _generated.VALUE == 42
        def test_path(): assert sample.__file__ == "/workspace/repo/src/sample/__init__.py"
    """
    return make_tree(
        {
            "pyproject.toml": textwrap.dedent(pyproject),
            "setup.py": textwrap.dedent(setup),
            "src/sample/__init__.py": "import six\ndef text(x):\n    return isinstance(x, str)\n",
            "tests/test_sample.py": textwrap.dedent(tests),
        }
    )


@pytest.fixture
def images(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Environment images that the test makes, under a name of its own, removed afterwards."""
    name = f"agentforge-env-{secrets.token_hex(4)}"
    monkeypatch.setattr(labels, "ENV_REPOSITORY", name)

    def ours() -> set[str]:
        return {image.id for image in engine.images.list(name=name)}

    yield ours
    for image in ours():
        engine.images.remove(image, force=True)


def test_af39_dependencies_are_installed_in_an_image_and_the_candidate_runs(
    sandbox: DockerSandbox, images: Any
) -> None:
    salt = secrets.token_hex(4)
    tree = source_layout(salt)

    async def scenario() -> None:
        environment = await sandbox.prepare(tree, EnvironmentSpec())
        made = images()
        report = await sandbox.run_tests(environment, tree, TestRequest())
        assert report.cause is Cause.OK, report
        assert len(report.passed) == 4, report.output
        assert "without the repository's addopts" in report.cause_detail
        assert any("extra test" in note for note in environment.notes)

        broken = tree.with_changes({"src/sample/__init__.py": TreeFile(b"def text(x):\n    return False\n")})
        again = await sandbox.prepare(broken, EnvironmentSpec())
        assert again == environment, "the same dependencies were built twice"
        assert images() == made
        report = await sandbox.run_tests(again, broken, TestRequest())
        assert report.failed == {"tests/test_sample.py::test_dependency"}

    asyncio.run(scenario())


def test_without_dependency_files_nothing_is_built(
    sandbox: DockerSandbox, base_image: str, images: Any
) -> None:
    tree = make_tree(
        {"src/pkg/__init__.py": "X = 1\n", "test_a.py": "import pkg\ndef test_a(): assert pkg.X\n"}
    )
    before = images()

    async def scenario() -> Environment:
        environment = await sandbox.prepare(tree, EnvironmentSpec())
        report = await sandbox.run_tests(environment, tree, TestRequest())
        assert report.passed == {"test_a.py::test_a"}, report.output
        return environment

    assert asyncio.run(scenario()).image == base_image
    assert images() == before


def test_a_failing_build_says_why_and_leaves_nothing(
    sandbox: DockerSandbox, engine: Any, images: Any
) -> None:
    salt = secrets.token_hex(6)
    tree = make_tree(
        {"requirements.txt": f"agentforge-no-such-{salt}\n", "test_a.py": "def test_a(): pass\n"}
    )
    before, containers = images(), build_containers(engine)
    with pytest.raises(ImageError) as caught:
        asyncio.run(sandbox.prepare(tree, EnvironmentSpec()))
    assert f"agentforge-no-such-{salt}" in caught.value.what
    assert "--setup" in caught.value.hint
    assert "--image" in caught.value.hint
    assert images() == before
    assert build_containers(engine) == containers


def build_containers(engine: Any) -> set[str]:
    """Of this process: other tests build at the same time."""
    filters = {"label": [f"{labels.ROLE}={labels.ROLE_BUILD}", f"{labels.PID}={os.getpid()}"]}
    return {one.id for one in engine.containers.list(all=True, filters=filters)}


def test_setup_commands_and_own_images(sandbox: DockerSandbox, base_image: str, images: Any) -> None:
    tree = make_tree(
        {"test_a.py": f"# {secrets.token_hex(4)}\ndef test_a(): assert open('made.txt').read()\n"}
    )

    async def scenario() -> None:
        environment = await sandbox.prepare(tree, EnvironmentSpec(setup=("echo yes > made.txt",)))
        report = await sandbox.run_tests(environment, tree, TestRequest())
        assert report.passed == {"test_a.py::test_a"}, report
        own = await sandbox.prepare(tree, EnvironmentSpec(image=base_image))
        assert own.image == base_image
        assert (await sandbox.run_tests(own, tree, TestRequest())).failed == {"test_a.py::test_a"}
        with pytest.raises(ImageError, match="not on this machine"):
            await sandbox.prepare(tree, EnvironmentSpec(image="agentforge-missing:0"))

    asyncio.run(scenario())


def test_a_build_keeps_no_secret_and_no_certificate(
    settings: SandboxSettings,
    engine: Any,
    images: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_id: str,
) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://user:hunter2@127.0.0.1:9/simple")
    tree = make_tree({"test_a.py": f"# {secrets.token_hex(4)}\ndef test_a(): pass\n"})
    sandbox = DockerSandbox(settings, run_id)
    environment = asyncio.run(
        sandbox.prepare(tree, EnvironmentSpec(setup=('test -n "$PIP_EXTRA_INDEX_URL"',)))
    )
    inspected = engine.api.inspect_image(environment.image)
    assert "hunter2" not in str(inspected)
    assert "hunter2" not in str(engine.images.get(environment.image).history())
    listing = engine.containers.run(
        environment.image, ["find", "/job", "/workspace", "-type", "f"], network_mode="none", remove=True
    )
    assert listing.strip() == b""


def ask(sandbox: DockerSandbox, tree: Tree, **wishes: Any) -> Environment:
    return asyncio.run(sandbox.prepare(tree, EnvironmentSpec(**wishes)))


def passes(sandbox: DockerSandbox, environment: Environment, tree: Tree) -> set[str]:
    report = asyncio.run(sandbox.run_tests(environment, tree, TestRequest()))
    assert report.cause is Cause.OK, report
    return set(report.passed)


def test_debian_packages(sandbox: DockerSandbox, images: Any) -> None:
    """One that is no name is refused before anything runs; one that does not exist is named."""
    code = "import shutil, os\ndef test_a(): assert shutil.which('ed') and os.getuid() == 1000\n"
    tree = make_tree({"test_a.py": code})
    environment = ask(sandbox, tree, apt=("ed",))
    assert passes(sandbox, environment, tree) == {"test_a.py::test_a"}
    assert "Debian packages: ed" in environment.notes
    before = images()
    assert ask(sandbox, tree, apt=("ed",)) == environment
    with pytest.raises(UsageError, match="--assume-no"):
        ask(sandbox, tree, apt=("--assume-no",))
    missing = f"agentforge-no-such-{secrets.token_hex(3)}"
    with pytest.raises(ImageError, match=f"(?s)Debian packages failed.*{missing}"):
        ask(sandbox, tree, apt=(missing,))
    assert images() == before


def test_a_dockerfile_of_ones_own(sandbox: DockerSandbox, engine: Any, images: Any, base_image: str) -> None:
    mark = secrets.token_hex(4)
    tree = make_tree({"test_a.py": "def test_a(): assert open('/mark').read()\n", "mark": mark})
    good = f"FROM {base_image}\nUSER 0\nCOPY mark /mark\nUSER 1000\n"
    environment = ask(sandbox, tree, dockerfile=good)
    assert passes(sandbox, environment, tree) == {"test_a.py::test_a"}
    assert ask(sandbox, tree, dockerfile=good).image == environment.image

    def everything() -> set[str]:
        return {image["Id"] for image in engine.api.images(all=True)}

    before, containers = everything(), {one.id for one in engine.containers.list(all=True)}
    with pytest.raises(ImageError, match=r"(?s)no-such-command.*not found"):
        ask(sandbox, tree, dockerfile=good + f"RUN echo {mark}\nRUN no-such-command\n")
    with pytest.raises(ImageError):
        ask(sandbox, tree, dockerfile="FORM nothing\n")
    assert everything() - before == set()
    left = {one.id for one in engine.containers.list(all=True)} - containers
    assert not [one for one in left if "no-such-command" in str(engine.api.inspect_container(one)["Config"])]
    engine.images.get(base_image)  # the image it was built over is still there


def test_a_python_that_cannot_be_had_is_said(sandbox: DockerSandbox, images: Any) -> None:
    """The project is installed all the same, with the Python there is."""
    salt = secrets.token_hex(4)
    text = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    text += f'[project]\nname = "old-{salt}"\nversion = "1"\nrequires-python = "<3"\n'
    text += '[tool.setuptools]\npy-modules = ["old"]\n'
    tree = make_tree({"pyproject.toml": text, "old.py": "", "test_a.py": "import old\ndef test_a(): pass\n"})
    environment = ask(sandbox, tree)
    assert any("wants Python <3" in note and "Python 3.11 is used" in note for note in environment.notes)
    assert any("the project, editable" in note for note in environment.notes)
    assert passes(sandbox, environment, tree) == {"test_a.py::test_a"}


def test_a_lock_decides_versions_where_it_can(sandbox: DockerSandbox, images: Any) -> None:
    salt = secrets.token_hex(4)
    code = "import six\ndef test_a(): assert six.__version__ == '1.15.0'\n"
    files = {"requirements.txt": f"six  # {salt}\n", "test_a.py": code}
    tree = make_tree({**files, "uv.lock": '[[package]]\nname="six"\nversion="1.15.0"\n'})
    environment = ask(sandbox, tree)
    assert "versions are those of uv.lock" in environment.notes
    assert passes(sandbox, environment, tree) == {"test_a.py::test_a"}
    gone = make_tree({**files, "uv.lock": '[[package]]\nname="six"\nversion="99.0"\n'})
    assert any("cannot be installed; others are taken" in note for note in ask(sandbox, gone).notes)


def test_prune_by_age_and_size(engine: Any, base_image: str, images: Any) -> None:
    """The oldest go first, until what is left holds no more than asked; other people's images never do."""
    made = []
    for number in range(3):
        fill = ["sh", "-c", "head -c 300000 /dev/zero > /filled"]
        container = engine.containers.create(base_image, fill, user="0")
        container.start()
        container.wait()
        mine = {"Labels": {labels.ROLE: labels.ROLE_ENV}} if number < 2 else {"Labels": {"somebody": "else"}}
        tag = f"prune-{secrets.token_hex(4)}"
        made.append(f"{labels.ENV_REPOSITORY}:{tag}")
        container.commit(labels.ENV_REPOSITORY, tag, conf=mine)
        container.remove()
    try:
        everything = prune(engine, older_than_days=3650, keep_gb=0, dry_run=True).images
        assert set(made[:2]) <= set(everything)
        assert made[2] not in everything
        assert prune(engine, older_than_days=3650, keep_gb=1000, dry_run=True).images == ()
        assert prune(engine, older_than_days=3650, dry_run=True).images == ()
        assert set(made[:2]) <= set(prune(engine, older_than_days=0, dry_run=True).images)
    finally:
        for tag in made:
            engine.images.remove(tag, force=True)
