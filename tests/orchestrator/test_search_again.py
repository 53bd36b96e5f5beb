"""A plausible edit that breaks a test nobody watched: the search goes on, and watches it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.config.settings import Settings
from agentforge.core.gate import Verdict
from agentforge.orchestrator.nodes import searching
from agentforge.orchestrator.replay import replay_run
from tests.orchestrator.conftest import Fix, make_repository

pytestmark = pytest.mark.docker

FILES = {
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "prices.py": (
        "def price(n):\n    return n * 3 + (1 if n == 11 else 0)\n\n\ndef half(n):\n    return n // 2\n"
    ),
    # Enough passing tests in the target's own file, so that no other one is watched at first.
    "tests/test_target.py": (
        "import pytest\nfrom prices import half, price\n\n\n"
        "@pytest.mark.parametrize('n', range(14))\ndef test_half(n):\n    assert half(2 * n) == n\n\n\n"
        "def test_ten():\n    assert price(10) == 31\n"
    ),
    "tests/test_elsewhere.py": (
        "from prices import price\n\n\ndef test_few():\n    assert price(3) == 9\n\n\n"
        "def test_many():\n    assert price(12) == 36\n"
    ),
}


async def test_what_the_gate_saw_broken_is_watched_by_the_next_search(
    fix: Fix, configure: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MAX_PLAUSIBLE", 1)
    settings = configure(workflow="search", memory__enabled=False)
    target = "tests/test_target.py::test_ten"
    done = await fix(make_repository(tmp_path / "prices", FILES), settings, target_tests=(target,))
    state = done.result.state
    assert done.result.outcome == "verified", done.result.summary
    assert state is not None
    assert "tests/test_elsewhere.py::test_few" in state.watched
    verdicts = [event.decision.verdict for event in done.of_type("gate_decided")]  # type: ignore[attr-defined]
    assert verdicts[0] == Verdict.REFUSED
    assert verdicts[-1] == Verdict.VERIFIED
    assert len({str(edit.changes) for edit in state.found}) == len(state.found)
    again = await replay_run(done.result.run_id, settings, lambda event: None)
    assert again.replay_matches
