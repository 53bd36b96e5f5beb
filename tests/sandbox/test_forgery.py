"""Attempts to make a failing suite look green. None may yield a pass of the failing test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentforge.core.report import Cause, Outcome, TestReport

pytestmark = pytest.mark.docker
Run = Callable[..., TestReport]

FAILING = "def test_it():\n    assert 1 == 2\n"
ID = "test_it.py::test_it"


def believed(report: TestReport) -> bool:
    """What a gate would accept."""
    return report.cause is Cause.OK and ID in report.passed


def test_honest_failure_is_reported(run: Run) -> None:
    report = run({"test_it.py": FAILING})
    assert report.cause is Cause.OK
    assert report.outcomes == {ID: Outcome.FAILED}


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {"test_it.py": "import os\ndef test_it():\n    print('1 passed')\n    os._exit(0)\n"},
            id="os-exit-0",
        ),
        pytest.param({"test_it.py": "import os\nos._exit(0)\n"}, id="os-exit-at-import"),
        pytest.param({"test_it.py": FAILING, "conftest.py": "import os\nos._exit(0)\n"}, id="conftest-exit"),
        pytest.param(
            {"test_it.py": FAILING, "sitecustomize.py": "import os\nos._exit(0)\n"}, id="sitecustomize"
        ),
        pytest.param(
            {"test_it.py": "def test_it():\n    import pytest\n    pytest.exit('done', returncode=0)\n"},
            id="pytest-exit-0",
        ),
        pytest.param(
            {
                "test_it.py": FAILING,
                "conftest.py": (
                    "import pytest\n"
                    "@pytest.hookimpl(hookwrapper=True, tryfirst=True)\n"
                    "def pytest_runtest_makereport(item, call):\n"
                    "    result = yield\n"
                    "    report = result.get_result()\n"
                    "    report.outcome = 'passed'\n"
                    "    report.longrepr = None\n"
                ),
            },
            id="conftest-rewrites-report",
        ),
        pytest.param(
            {
                "test_it.py": FAILING,
                "conftest.py": (
                    "import pytest\n"
                    "@pytest.hookimpl(hookwrapper=True, tryfirst=True)\n"
                    "def pytest_runtest_makereport(item, call):\n"
                    "    call.excinfo = None\n"
                    "    yield\n"
                ),
            },
            id="conftest-forgets-exception",
        ),
        pytest.param(
            {
                "test_it.py": FAILING,
                "conftest.py": "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n",
            },
            id="conftest-exit-status",
        ),
        pytest.param(
            {
                "test_it.py": FAILING,
                "pytest.ini": "[pytest]\naddopts = -p no:agentforge_report -k nothing_matches\n",
            },
            id="ini-deselects-and-blocks-plugin",
        ),
        pytest.param(
            {
                "test_it.py": FAILING,
                "conftest.py": "def pytest_collection_modifyitems(items):\n    items.clear()\n",
            },
            id="conftest-drops-items",
        ),
        pytest.param(
            {
                "test_it.py": FAILING,
                "conftest.py": (
                    "import pytest\n"
                    "def pytest_collection_modifyitems(items):\n"
                    "    for item in items:\n"
                    "        item.add_marker(pytest.mark.skip)\n"
                ),
            },
            id="conftest-skips",
        ),
        pytest.param(
            {
                "test_it.py": FAILING,
                "conftest.py": (
                    "def pytest_runtest_protocol(item, nextitem):\n"
                    "    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)\n"
                    "    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)\n"
                    "    return True\n"
                ),
            },
            id="conftest-replaces-protocol",
        ),
        pytest.param(
            {
                "test_it.py": FAILING,
                "pytest.py": "import sys\ndef main(*a, **k):\n    return 0\n",
                "_pytest/__init__.py": "",
            },
            id="shadowed-pytest",
        ),
        pytest.param(
            {
                "test_it.py": (
                    "import glob, json, os, socket\n"
                    "def test_it():\n"
                    "    event = {'kind': 'phase', 'id': 'test_it.py::test_it', 'when': 'call',\n"
                    "             'outcome': 'passed', 'xfail': False, 'duration': 0, 'text': ''}\n"
                    "    line = (json.dumps(event) + '\\n').encode()\n"
                    "    for name in ('report.json', 'junit.xml'):\n"
                    "        open(name, 'wb').write(line)\n"
                    "    for path in glob.glob('/job/channel/*'):\n"
                    "        with socket.socket(socket.AF_UNIX) as s:\n"
                    "            s.connect(path)\n"
                    "            s.sendall(line)\n"
                    "    print(line.decode())\n"
                    "    assert False\n"
                )
            },
            id="own-report-files-and-socket",
        ),
        pytest.param(
            {
                "test_it.py": (
                    "import os\n"
                    "def test_it():\n"
                    "    for name in ('launch.py', 'report_plugin.py', 'request.json'):\n"
                    "        path = '/job/' + name\n"
                    "        try:\n"
                    "            open(path, 'w').write('')\n"
                    "        except OSError:\n"
                    "            continue\n"
                    "        os._exit(0)\n"
                    "    os.replace('/job/launch.py', '/job/x')\n"
                )
            },
            id="overwrites-the-launcher",
        ),
        pytest.param(
            {
                "test_it.py": (
                    "import os, signal\n"
                    "def test_it():\n"
                    "    for entry in os.listdir('/proc'):\n"
                    "        if entry.isdigit() and int(entry) not in (1, os.getpid()):\n"
                    "            try:\n"
                    "                os.kill(int(entry), signal.SIGKILL)\n"
                    "            except OSError:\n"
                    "                pass\n"
                    "    os._exit(0)\n"
                )
            },
            id="kills-its-parents",
        ),
    ],
)
def test_forged_report_is_not_believed(run: Run, files: dict[str, str]) -> None:
    report = run(files)
    assert not believed(report), report
    assert report.cause is not Cause.OK or report.outcomes.get(ID) is not Outcome.PASSED


def test_rewritten_outcome_is_said(run: Run) -> None:
    hook = (
        "import pytest\n"
        "@pytest.hookimpl(hookwrapper=True, tryfirst=True)\n"
        "def pytest_runtest_makereport(item, call):\n"
        "    result = yield\n"
        "    result.get_result().outcome = 'passed'\n"
    )
    report = run({"test_it.py": FAILING, "conftest.py": hook})
    assert report.outcomes == {ID: Outcome.FAILED}
    assert "not believed" in report.cause_detail
    assert report.failures[ID].message == "assert 1 == 2"


def test_af08_without_pytest_there_is_no_verdict(run: Run, engine, environment, sandbox) -> None:
    """No report means infra, never a pass, whatever was printed."""
    import asyncio

    from agentforge.core.ports import Environment, TestRequest
    from tests.sandbox.conftest import make_tree

    bare = Environment(image=environment.image, test_command=("/usr/bin/python3", "-m", "pytest"))
    tree = make_tree({"test_it.py": FAILING})
    report = asyncio.run(sandbox.run_tests(bare, tree, TestRequest()))
    assert report.cause is Cause.INFRA
    assert "pytest" in report.cause_detail
    assert not report.outcomes


def test_af09_the_exit_code_is_kept(run: Run) -> None:
    assert run({"test_it.py": FAILING}).exit_code == 1
    assert run({"test_it.py": "def test_it():\n    pass\n"}).exit_code == 0


USES_LIB = "import lib\ndef test_it():\n    assert lib.f() == 2\n"
UNITTEST = (
    "import lib, unittest\n"
    "class T(unittest.TestCase):\n"
    "    def test_it(self):\n"
    "        self.assertEqual(lib.f(), 2)\n"
)
QUIET_CALL = (
    "import _pytest.runner as r\n"
    "old = r.CallInfo.from_call.__func__\n"
    "def quiet(cls, func, when, *a, **k):\n"
    "    def safe():\n"
    "        try:\n"
    "            return func()\n"
    "        except BaseException:\n"
    "            return None\n"
    "    return old(cls, safe, when, *a, **k)\n"
    "r.CallInfo.from_call = classmethod(quiet)\n"
)


@pytest.mark.parametrize(
    ("lib", "named", "test"),
    [
        (
            "import _pytest.python as p\np.Function.runtest = lambda self: None\n",
            "_pytest.python.Function.runtest",
            USES_LIB,
        ),
        (
            "import _pytest.python as p\np.Function.runtest.__code__ = (lambda self: None).__code__\n",
            "_pytest.python.Function.runtest",
            USES_LIB,
        ),
        (QUIET_CALL, "_pytest.runner.CallInfo.from_call", USES_LIB),
        (
            "import _pytest.runner as r\nr.CallInfo.excinfo = property(lambda s: None, lambda s, v: None)\n",
            "_pytest.runner.CallInfo.excinfo",
            USES_LIB,
        ),
        (
            "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n",
            "unittest.case.TestCase.assertEqual",
            UNITTEST,
        ),
        (
            "import unittest\nunittest.TestCase._callTestMethod = lambda *a, **k: None\n",
            "unittest.case.TestCase._callTestMethod",
            UNITTEST,
        ),
    ],
    ids=["runtest", "code-object", "from-call", "excinfo", "assert-equal", "call-test-method"],
)
def test_a_replaced_framework_is_named_and_refused(run: Run, lib: str, named: str, test: str) -> None:
    """The code under repair turns every test green; the gate sees what it replaced."""
    from agentforge.core.gate import ReasonKind, Verdict
    from agentforge.orchestrator.gate import decide

    honest = run({"test_it.py": test, "lib.py": "def f():\n    return 1\n"})
    forged = run({"test_it.py": test, "lib.py": lib + "def f():\n    return 1\n"})
    assert len(honest.failed) == 1
    assert honest.tampered == ()
    assert forged.passed == honest.failed, "the attack itself does not work any more"
    assert named in forged.tampered
    assert named in forged.cause_detail
    decision = decide(honest, forged, tuple(honest.failed))
    assert decision.verdict is Verdict.REFUSED
    assert ReasonKind.TAMPERED in {reason.kind for reason in decision.reasons}


def test_what_the_base_replaces_too_is_no_reason(run: Run) -> None:
    """A repository that has always patched unittest is not refused for it; what it adds is nothing."""
    lib = "import unittest\nunittest.TestCase.assertItemsEqual = unittest.TestCase.assertCountEqual\n"
    assert run({"test_it.py": UNITTEST, "lib.py": lib + "def f():\n    return 2\n"}).tampered == ()


@pytest.mark.parametrize(
    "f",
    [
        pytest.param("    if os.fork():\n        os._exit(0)\n    return 2\n", id="child-goes-on"),
        pytest.param("    os.execv('/bin/true', ['true'])\n", id="exec"),
        pytest.param("    os.closerange(3, 200)\n    os._exit(0)\n", id="closes-the-channel"),
        pytest.param(
            "    import threading\n"
            "    threading.Timer(0.2, os._exit, (0,)).start()\n"
            "    import time; time.sleep(5)\n",
            id="thread-exits",
        ),
        pytest.param("    import atexit; atexit.register(os._exit, 0)\n    return 1\n", id="atexit"),
        pytest.param(
            "    import _pytest.main as m\n"
            "    m.Session.testsfailed = property(lambda s: 0, lambda s, v: None)\n"
            "    return 1\n",
            id="nothing-failed",
        ),
        pytest.param(
            "    import stat\n"
            "    def event(kind, **values):\n"
            "        event = {'kind': kind, 'id': 'test_it.py::test_it', **values}\n"
            "        return json.dumps(event).encode() + b'\\n'\n"
            "    lines = b''.join(\n"
            "        event('raw', when=w, outcome='passed', failure={})\n"
            "        + event('phase', when=w, outcome='passed', xfail=False, duration=0, text='')\n"
            "        for w in ('setup', 'call', 'teardown'))\n"
            "    for fd in range(3, 100):\n"
            "        try:\n"
            "            if stat.S_ISSOCK(os.fstat(fd).st_mode):\n"
            "                os.write(fd, lines + event('finish') + event('end', code=0))\n"
            "        except OSError:\n"
            "            pass\n"
            "    os._exit(0)\n",
            id="events-of-its-own-into-the-open-channel",
        ),
        pytest.param(
            "    old = json.dumps\n"
            "    def dumps(o, *a, **k):\n"
            "        if isinstance(o, dict) and o.get('outcome') == 'failed':\n"
            "            o = {**o, 'outcome': 'passed', 'failure': {}}\n"
            "        return old(o, *a, **k)\n"
            "    json.dumps = dumps\n"
            "    return 1\n",
            id="rewrites-json",
        ),
        pytest.param(
            "    import builtins, unittest\n    builtins.AssertionError = unittest.SkipTest\n    return 1\n",
            id="failures-become-skips",
        ),
        pytest.param("    import pytest\n    pytest.xfail('known')\n", id="expected-to-fail"),
    ],
)
def test_code_under_repair_cannot_end_the_run_green(run: Run, f: str) -> None:
    report = run({"test_it.py": USES_LIB, "lib.py": f"import json, os\ndef f():\n{f}"})
    assert not believed(report), report
    assert report.cause is not Cause.OK or report.outcomes[ID] is not Outcome.PASSED
