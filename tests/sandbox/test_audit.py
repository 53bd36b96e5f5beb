"""Code of the repository that reaches for the reporter is named, before it gets there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentforge.core.gate import ReasonKind, Verdict
from agentforge.core.report import Cause, TestReport
from agentforge.orchestrator.gate import decide

pytestmark = pytest.mark.docker
Run = Callable[..., TestReport]

TEST = "from shapes import area\ndef test_area():\n    assert area(2, 3) == 6\n"
HONEST = "import gc, inspect, logging, collections\ndef area(a, b):\n    gc.collect()\n"
FAIR = HONEST + "    logging.info('x')\n    collections.namedtuple('P', 'x y')\n    return a * b\n"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("__import__('gc').get_objects()", "gc.get_objects"),
        ("__import__('gc').get_referrers(area)", "gc.get_referrers"),
        ("__import__('sys').settrace(None)", "sys.settrace"),
        ("__import__('sys').setprofile(None)", "sys.setprofile"),
        ("__import__('sys')._getframe()", "sys._getframe"),
        ("__import__('inspect').stack()", "sys._getframe"),
        ("__import__('inspect').currentframe()", "sys._getframe"),
        ("__import__('sys')._current_frames()", "sys._current_frames"),
        ("__import__('ctypes').CDLL(None)", "ctypes.dlopen"),
        ("__import__('os').listdir('/proc/self/fd')", "os.listdir of /proc/self/fd"),
        ("open('/proc/self/mem', 'rb').close()", "open of /proc/self/mem"),
        ("(lambda: (yield))().gi_frame", "gi_frame"),
    ],
)
def test_what_reaches_for_the_reporter_is_named_and_refused(run: Run, line: str, name: str) -> None:
    base = run({"test_a.py": TEST, "shapes.py": "def area(a, b):\n    return a + b\n"})
    patched = run({"test_a.py": TEST, "shapes.py": f"def area(a, b):\n    {line}\n    return a * b\n"})
    assert patched.cause is Cause.OK
    assert f"{name} in shapes.py" in patched.tampered
    decision = decide(base, patched, ["test_a.py::test_area"])
    assert decision.verdict is Verdict.REFUSED
    assert ReasonKind.TAMPERED in {reason.kind for reason in decision.reasons}


def test_ordinary_code_is_not_named(run: Run) -> None:
    report = run({"test_a.py": TEST, "shapes.py": FAIR})
    assert report.passed == {"test_a.py::test_area"}
    assert not report.tampered


def test_what_the_base_does_too_is_no_reason(run: Run) -> None:
    code = "import sys\ndef area(a, b):\n    sys._getframe()\n    return a {} b\n"
    base, fixed = (run({"test_a.py": TEST, "shapes.py": code.format(sign)}) for sign in "+*")
    assert base.tampered == fixed.tampered == ("sys._getframe in shapes.py",)
    assert decide(base, fixed, ["test_a.py::test_area"]).verdict is Verdict.VERIFIED


def test_looking_for_a_replaced_framework_asks_foreign_objects_for_nothing(run: Run) -> None:
    """As with strict markers in older pytests, whose maker of markers fails where it is asked for a name."""
    odd = "import _pytest.outcomes\nimport pytest\n\n\nclass Odd:\n    def __getattr__(self, name):\n"
    odd += "        pytest.fail(name)\n\n\n_pytest.outcomes.ODD = Odd()\n"
    report = run({"test_a.py": "def test_one():\n    pass\ndef test_two():\n    pass\n", "conftest.py": odd})
    assert report.cause is Cause.OK, report.output
    assert report.passed == {"test_a.py::test_one", "test_a.py::test_two"}
