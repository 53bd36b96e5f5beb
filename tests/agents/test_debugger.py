"""The debugger: edits the candidate, answers relative to the base, and knows what was tried."""

from __future__ import annotations

import pytest

from agentforge.agents.base import Window
from agentforge.agents.coder import EditContext
from agentforge.agents.deadlock import NO_DEADLOCK, Attempt, Decision, Strategy, next_strategy
from agentforge.agents.debugger import RAISED_TEMPERATURE, Debugger, Failing
from agentforge.core.errors import RefusalReason
from agentforge.core.plan import Step
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport
from agentforge.core.tree import TreeFile
from tests.agents.scripted import CALC, ISSUE, TREE, Script, text_at

STEP = Step(id="repair", agent="debugger", description="repair add", files=("pkg/calc.py",))
WRONG = CALC.replace("a - b", "a * b").replace("Arithmetic", "Sums")
CANDIDATE = TREE.with_changes({"pkg/calc.py": TreeFile(WRONG.encode())})
FIX = "pkg/calc.py\n<<<<<<< SEARCH\n    return a * b\n=======\n    return a + b\n>>>>>>> REPLACE\n"
TEST = "tests/test_calc.py::test_double"
REPORT = TestReport(
    outcomes={TEST: Outcome.FAILED},
    failures={
        TEST: TestFailure(
            exception="AssertionError",
            message="assert 6 == 5\n +  where 6 = add(2, 3)",
            frames=(("tests/test_calc.py", 5, "test_double"), ("pkg/calc.py", 10, "double")),
        )
    },
    output="noise " * 10_000,
)
FAILING = Failing(CANDIDATE, "-    return a - b\n+    return a * b\n", REPORT, (TEST,))
CONTEXT = EditContext(ISSUE)


async def test_changes_are_relative_to_the_base():
    result = await Debugger(Script(FIX)).repair(STEP, CONTEXT, FAILING, TREE, "search_replace")
    assert result.changes is not None
    assert set(result.changes) == {"pkg/calc.py"}
    assert text_at(result.changes, "pkg/calc.py") == WRONG.replace("a * b", "a + b")


async def test_files_of_the_candidate_that_it_leaves_alone_stay_in_the_changes():
    candidate = CANDIDATE.with_changes({"pkg/extra.py": TreeFile(b"X = 1\n"), "README.md": None})
    failing = Failing(candidate, "", REPORT, (TEST,))
    result = await Debugger(Script(FIX)).repair(STEP, CONTEXT, failing, TREE, "search_replace")
    assert result.changes is not None
    assert set(result.changes) == {"pkg/calc.py", "pkg/extra.py", "README.md"}
    assert result.changes["README.md"] is None


async def test_eg19_eg20_the_prompt_holds_candidate_call_expected_and_got():
    model = Script(FIX)
    await Debugger(model, temperature=0.0, seed=42).repair(
        STEP, CONTEXT, FAILING, TREE, "search_replace", attempt=2
    )
    prompt = model.prompt()
    for part in ("return a * b", "+    return a * b", "expected: 5", "got:      6", TEST, ISSUE.text):
        assert part in prompt
    assert "noise" not in prompt
    assert model.requests[0].seed == 44


async def test_eg21_temperature_zero_repeats_only_with_a_changed_prompt():
    decision = Decision(strategy=Strategy.HIGHER_TEMPERATURE, failed_places=("pkg/calc.py::add",))
    model = Script(FIX, FIX)
    debugger = Debugger(model, temperature=0.0, seed=42)
    await debugger.repair(STEP, CONTEXT, FAILING, TREE, "search_replace", attempt=1)
    await debugger.repair(STEP, CONTEXT, FAILING, TREE, "search_replace", decision=decision, attempt=2)
    first, second = model.requests
    assert (first.temperature, second.temperature) == (0.0, RAISED_TEMPERATURE)
    assert first.seed != second.seed
    assert first.messages != second.messages


async def test_the_symbol_rung_shows_the_candidates_function_and_the_failure():
    answer = '```python\ndef add(a, b):\n    """Sum of two numbers."""\n    return a + b\n```'
    model = Script(answer)
    result = await Debugger(model).repair(STEP, CONTEXT, FAILING, TREE, "symbol")
    assert result.changes is not None
    assert "return a + b" in text_at(result.changes, "pkg/calc.py")
    prompt = model.prompt()
    assert "return a * b" in prompt
    assert "expected: 5" in prompt
    assert "class Box" not in prompt


async def test_wider_context_shows_more():
    narrow, wide = Script("x"), Script("x")
    await Debugger(narrow).repair(STEP, CONTEXT, FAILING, TREE, "symbol")
    decision = Decision(strategy=Strategy.WIDER_CONTEXT, failed_places=("pkg/calc.py::add",))
    await Debugger(wide).repair(STEP, CONTEXT, FAILING, TREE, "symbol", decision=decision)
    assert "Related code" not in narrow.prompt()
    assert "Related code" in wide.prompt()
    assert "did not help" not in wide.prompt()


async def test_other_place_names_the_failed_places_and_moves_the_focus():
    decision = next_strategy([Attempt(signature="s", places=("pkg/calc.py::add",))] * 3)
    assert decision.strategy is Strategy.OTHER_PLACE
    model = Script("x", "y")
    await Debugger(model).repair(STEP, CONTEXT, FAILING, TREE, "search_replace", decision=decision)
    assert "- pkg/calc.py::add" in model.prompt(0)
    code = model.prompt(1).split("The code to fix")[1]
    assert "def double(a):" in code
    assert "def add(a, b):" not in code


async def test_taking_the_edit_back_is_no_repair():
    candidate = TREE.with_changes({"pkg/calc.py": TreeFile(CALC.replace("a - b", "a * b").encode())})
    back = FIX.replace("return a + b", "return a - b")
    seen: list[object] = []
    failing = Failing(candidate, "", REPORT, (TEST,))
    result = await Debugger(Script(back)).repair(STEP, CONTEXT, failing, TREE, "search_replace", seen.append)
    assert result.gave_up
    assert result.refusals[0].reason is RefusalReason.ALREADY_APPLIED
    assert len(seen) == 1


async def test_giving_up_keeps_the_refusals():
    result = await Debugger(Script("x", "y", "z")).repair(STEP, CONTEXT, FAILING, TREE, "diff")
    assert result.gave_up
    assert len(result.refusals) == 3


@pytest.mark.parametrize(
    "report",
    [
        TestReport(),
        TestReport(cause=Cause.CRASH, cause_detail="signal 11"),
        TestReport(outcomes={TEST: Outcome.ERROR}),
    ],
)
async def test_af21_any_report_is_enough_to_ask(report):
    failing = Failing(CANDIDATE, "", report, ("gone::test",))
    result = await Debugger(Script(FIX)).repair(STEP, CONTEXT, failing, TREE, "search_replace")
    assert result.changes is not None


async def test_complaint15_huge_output_and_messages_are_clipped():
    failures = {TEST: TestFailure(exception="ValueError", message="x" * 10**6)}
    report = TestReport(outcomes={TEST: Outcome.FAILED}, failures=failures, output="y" * 10**6)
    model = Script(FIX)
    debugger = Debugger(model, window=Window(4000, 1000))
    await debugger.repair(STEP, CONTEXT, Failing(CANDIDATE, "+z\n" * 10**5, report), TREE, "search_replace")
    assert len(model.prompt()) < 3000 * 3.5


def test_no_deadlock_is_normal():
    assert not NO_DEADLOCK.deadlock
