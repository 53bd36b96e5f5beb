"""Test commands that are not pytest: what they become, and how their outcomes are read and doubted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentforge.core.ports import Environment, EnvironmentSpec, TestRequest
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.sandbox import DockerSandbox
from agentforge.sandbox.command_report import COMMAND_TEST
from agentforge.sandbox.foreign_reports import UnittestOutput, read_junit
from agentforge.sandbox.test_command import PYTEST, detect_test_command
from tests.sandbox.conftest import make_tree

DJANGO = {"manage.py": "import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'site.settings')\n"}


@pytest.mark.parametrize(
    ("command", "framework", "reads", "argv"),
    [
        ("python -m unittest", "pytest", "", (*PYTEST, "-o", "python_files=test*.py")),
        ("python -m unittest discover -v", "pytest", "", (*PYTEST, "-o", "python_files=test*.py")),
        (
            "python3 -m unittest discover -s t -p check_*.py",
            "command",
            "",
            ("sh", "-c", "python3 -m unittest discover -s t -p check_*.py"),
        ),
        ("python -m unittest discover -s t", "pytest", "", (*PYTEST, "-o", "python_files=test*.py", "t")),
        ("python -m unittest tests/test_a.py", "pytest", "", (*PYTEST, "tests/test_a.py")),
        (
            "python -m unittest tests.test_a.T",
            "command",
            "unittest",
            ("python", "-m", "unittest", "tests.test_a.T", "-v"),
        ),
        (
            "python -m unittest discover -t . -k x",
            "command",
            "unittest",
            ("python", "-m", "unittest", "discover", "-v", "-t", ".", "-k", "x"),
        ),
        (
            "python manage.py test app -v 1",
            "command",
            "unittest",
            ("python", "manage.py", "test", "app", "-v", "2", "--noinput"),
        ),
        ("./manage.py migrate", "command", "", ("./manage.py", "migrate")),
        (
            "tests/runtests.py queries",
            "command",
            "unittest",
            ("tests/runtests.py", "queries", "-v", "2", "--noinput"),
        ),
        ("python -m doctest a.py", "pytest", "", (*PYTEST, "--doctest-modules", "a.py")),
        ("npm test", "command", "", ("npm", "test")),
    ],
)
def test_given_commands(command: str, framework: str, reads: str, argv: tuple[str, ...]) -> None:
    found = detect_test_command(make_tree({}), command)
    assert (found.framework, found.reads, found.argv) == (framework, reads, argv)
    assert command in found.notes[0]


def test_django_and_doctests_are_explained() -> None:
    found = detect_test_command(make_tree({**DJANGO, "app/tests.py": ""}), None)
    assert (found.framework, found.reads, found.argv[:3]) == (
        "command",
        "unittest",
        ("python", "manage.py", "test"),
    )
    assert "manage.py" in found.notes[0]
    ini = "[pytest]\nDJANGO_SETTINGS_MODULE = site.settings\n"
    assert detect_test_command(make_tree({**DJANGO, "pytest.ini": ini}), None).argv == PYTEST
    notes = detect_test_command(
        make_tree({"pytest.ini": "[pytest]\naddopts = --doctest-modules\n"}), None
    ).notes
    assert any("doctests are among" in note for note in notes)


VERBOSE = """\
Found 7 test(s).
System check identified no issues (0 silenced).
test_ok (tests.test_a.T.test_ok) ... ok
test_old (tests.test_a.T)
What its docstring says. ... ok
test_noisy (tests.test_a.T.test_noisy) ... printed
more ok
ok
test_bad (tests.test_a.T.test_bad) ... FAIL
test_gone (tests.test_a.T.test_gone) ... skipped 'no reason'
test_known (tests.test_a.T.test_known) ... expected failure
test_luck (elsewhere.T.test_luck) ... unexpected success
tests.test_b (unittest.loader._FailedTest.tests.test_b) ... ERROR

======================================================================
FAIL: test_bad (tests.test_a.T.test_bad)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/workspace/repo/tests/test_a.py", line 9, in test_bad
AssertionError: 1 != 2

======================================================================
ERROR: setUpClass (tests.test_a.U)
----------------------------------------------------------------------
ValueError: no

----------------------------------------------------------------------
Ran 7 tests in 0.010s

FAILED (failures=1)
"""


def read(text: str, pieces: int = 11) -> UnittestOutput:
    reader = UnittestOutput(lambda module: {"tests.test_a": "tests/test_a.py"}.get(module, ""))
    data = text.encode()
    for start in range(0, len(data), pieces):
        reader.write(data[start : start + pieces])
    reader.close()
    return reader


def test_unittest_output_is_read_per_test() -> None:
    reader = read(VERBOSE)
    prefix = "tests/test_a.py::T::"
    expected = {
        prefix + "test_ok": Outcome.PASSED,
        prefix + "test_old": Outcome.PASSED,
        prefix + "test_noisy": Outcome.PASSED,
        prefix + "test_bad": Outcome.FAILED,
        prefix + "test_gone": Outcome.SKIPPED,
        prefix + "test_known": Outcome.XFAILED,
        "elsewhere.T::test_luck": Outcome.XPASSED,
    }
    assert expected.items() <= reader.found.outcomes.items()
    assert reader.found.outcomes["tests/test_a.py::U::setUpClass"] is Outcome.ERROR
    assert reader.ran == 7
    failure = reader.found.failures[prefix + "test_bad"]
    assert (failure.exception, failure.message) == ("AssertionError", "1 != 2")


def test_output_that_breaks_off_is_no_pass() -> None:
    reader = read("test_a (tests.test_a.T.test_a) ... ")
    assert reader.found.outcomes == {"tests/test_a.py::T::test_a": Outcome.ERROR}
    assert reader.ran is None


JUNIT = """<testsuites><testsuite>
<testcase classname="a.B" name="ok"/>
<testcase classname="a.B" name="bad"><failure type="E" message="m">t</failure></testcase>
<testcase name="skip"><skipped/></testcase>
<testcase classname="a.B" name="err"><error message="&#27;[2J"/></testcase>
<testcase classname="a.B" name="bad"/>
</testsuite></testsuites>"""


def test_junit_is_read_and_the_worse_of_two_counts() -> None:
    found = read_junit(JUNIT.replace("&#27;", "x").encode())
    assert found.outcomes == {
        "a.B::ok": Outcome.PASSED,
        "a.B::bad": Outcome.FAILED,
        "skip": Outcome.SKIPPED,
        "a.B::err": Outcome.ERROR,
    }
    assert found.failures["a.B::bad"].message == "m"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not xml",
        b"<html/>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>',
        b'<?xml version="1.0"?><!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>',
        JUNIT.encode(),  # a control character is not XML
        b"<testsuite>" * 5,
    ],
)
def test_a_junit_file_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_junit(data)


# -- in containers


def run_command(
    sandbox: DockerSandbox, environment: Environment, files: dict[str, str | bytes], command: str, **more: Any
) -> TestReport:
    tree = make_tree(files)
    found = detect_test_command(tree, command)
    changes = {"test_command": found.argv, "framework": found.framework, "reads": found.reads, **more}
    return asyncio.run(sandbox.run_tests(environment.model_copy(update=changes), tree, TestRequest()))


UNITTESTS = (
    "import unittest\n"
    "class T(unittest.TestCase):\n"
    "    def test_ok(self): print('FAIL: test_ok (x.T.test_ok)')\n"
    "    def test_bad(self):\n"
    "        for n in range(3):\n"
    "            with self.subTest(n=n): self.assertLess(n, 2)\n"
    "    @unittest.skip('no')\n"
    "    def test_skip(self): pass\n"
)


@pytest.mark.docker
def test_unittest_runs_and_is_read(sandbox: DockerSandbox, environment: Environment) -> None:
    files: dict[str, str | bytes] = {"tests/__init__.py": "", "tests/test_a.py": UNITTESTS}
    through_pytest = run_command(sandbox, environment, files, "python -m unittest discover")
    by_name = run_command(sandbox, environment, files, "python -m unittest tests.test_a.T")
    for report in (through_pytest, by_name):
        assert report.cause is Cause.OK, report
        assert report.exit_code == 1
        assert report.outcomes["tests/test_a.py::T::test_bad"] is Outcome.FAILED
        assert report.outcomes["tests/test_a.py::T::test_skip"] is Outcome.SKIPPED
    assert through_pytest.outcomes["tests/test_a.py::T::test_ok"] is Outcome.PASSED
    assert (
        run_command(sandbox, environment, files, "python -m unittest tests.nowhere").cause
        is not Cause.NO_TESTS
    )
    said = "'test_a (t.T.test_a) ... ok\\nRan 1 test in 0s\\n'"
    forged = {"t.py": f"import os, sys\nos.write(2, {said}.encode())\nos._exit(1)\n"}
    assert run_command(sandbox, environment, forged, "python -m unittest t").cause is Cause.INFRA
    printed = {"t.py": f"import os\nprint({said}, flush=True)\nos._exit(1)\n"}
    unheard = run_command(sandbox, environment, printed, "python -m unittest t")
    assert (unheard.cause, dict(unheard.outcomes)) == (Cause.CRASH, {})


@pytest.mark.docker
def test_a_django_project_runs_by_its_own_runner(sandbox: DockerSandbox) -> None:
    """Django itself is installed; the runner's output becomes ids of files."""
    settings = "SECRET_KEY = 'x'\nINSTALLED_APPS = ['app']\nUSE_TZ = True\n"
    settings += "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}\n"
    manage = (
        "import os, sys\n"
        "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'config.settings')\n"
        "from django.core.management import execute_from_command_line\n"
        "execute_from_command_line(sys.argv)\n"
    )
    tests = (
        "from django.test import TestCase\n"
        "class T(TestCase):\n"
        "    def test_settings(self):\n"
        "        from django.conf import settings\n"
        "        self.assertEqual(settings.SECRET_KEY, 'x')\n"
        "    def test_bad(self):\n        self.assertTrue(False)\n"
    )
    tree = make_tree(
        {
            "manage.py": manage,
            "requirements.txt": "django<5\n",
            "config/__init__.py": "",
            "config/settings.py": settings,
            "app/__init__.py": "",
            "app/tests.py": tests,
        }
    )

    async def scenario() -> TestReport:
        environment = await sandbox.prepare(tree, EnvironmentSpec())
        assert any("Django's runner" in note for note in environment.notes)
        return await sandbox.run_tests(environment, tree, TestRequest(timeout_s=60))

    report = asyncio.run(scenario())
    assert report.cause is Cause.OK, (report.cause_detail, report.output)
    assert report.passed == {"app/tests.py::T::test_settings"}
    assert report.failed == {"app/tests.py::T::test_bad"}


@pytest.mark.docker
def test_another_language_with_a_junit_report(sandbox: DockerSandbox, environment: Environment) -> None:
    good = JUNIT.replace("&#27;", "x").replace("\n", "")
    script = f"mkdir -p out\ncat > out/r.xml <<'E'\n{good}\nE\nexit $(cat code)\n"
    files: dict[str, str | bytes] = {"run.sh": script, "code": "1"}
    report = run_command(sandbox, environment, files, "sh run.sh", junit="out/r.xml")
    assert report.cause is Cause.OK, report
    assert report.passed == {"a.B::ok"}
    assert report.failed == {"a.B::bad", "a.B::err", COMMAND_TEST}
    missing = run_command(sandbox, environment, files, "sh run.sh", junit="out/other.xml")
    assert (missing.cause, missing.outcomes) == (Cause.INFRA, {})
    plant: dict[str, str | bytes] = {"run.sh": "ln -s /etc/passwd r.xml\n"}
    from agentforge.core.errors import EnvironmentFault

    with pytest.raises(EnvironmentFault, match="not a regular file"):
        run_command(sandbox, environment, plant, "sh run.sh", junit="r.xml")
