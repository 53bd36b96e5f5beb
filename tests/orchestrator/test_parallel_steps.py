"""Independent steps are coded at once, and nobody can tell from the record in which order they were ready."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.chat import Spend
from agentforge.core.errors import LimitReached
from agentforge.core.plan import Plan
from agentforge.models.errors import BadRequestError
from agentforge.orchestrator.batches import batches
from tests.orchestrator.parallel import NAMES, PLAN, coded, mended, paced, step
from tests.support.model_server import Reply, ScriptedModel, failure

REVERSED = {"one": 0.5, "two": 0.25, "three": 0.0}


@pytest.mark.parametrize(
    ("steps", "width", "groups"),
    [
        ([step("one"), step("two"), step("three")], 4, ["one two three"]),
        ([step("one"), step("two"), step("three")], 2, ["one two", "three"]),
        ([step("one"), step("two"), step("three")], 1, ["one", "two", "three"]),
        ([step("one"), step("two", "one"), step("three")], 4, ["one three", "two"]),
        ([step("one"), step("two", "one"), step("three", "two")], 4, ["one", "two", "three"]),
        ([step("one"), step("two", files=()), step("three")], 4, ["one", "two", "three"]),
        ([step("one"), step("two", files=("one.py",)), step("three")], 4, ["one three", "two"]),
        ([step("one", files=("a",)), step("two", files=("a/b.py",))], 4, ["one", "two"]),
        ([step("one"), step("two", "one"), step("three", files=("two.py",))], 4, ["one", "two", "three"]),
    ],
)
def test_only_steps_that_own_other_files_and_depend_on_nobody_go_together(
    steps: list[Any], width: int, groups: list[str]
) -> None:
    plan = Plan(explanation="", steps=tuple(steps))
    assert [" ".join(one.id for one in group) for group in batches(plan, steps, width)] == groups


def test_af13_a_dependency_through_a_step_that_writes_no_code_counts() -> None:
    between = step("between", "one").model_copy(update={"agent": "tester"})
    plan = Plan(explanation="", steps=(step("one"), between, step("two", "between")))
    assert [len(group) for group in batches(plan, plan.coder_steps(), 4)] == [1, 1]


async def test_answers_in_reverse_order_give_the_patch_and_the_record_of_a_run_in_order(
    tmp_path: Path,
) -> None:
    """A first answer that cannot be used, and a stream that breaks, are part of it."""
    runs = {}
    for name, delays in (("reversed", REVERSED), ("ordered", {"three": 0.3})):
        answers: dict[str, Any] = {"two": ["nothing of use", mended("two")]}
        broken = [Reply(mended("three"), reset_after=3, first_delay_s=delays["three"]), mended("three")]
        folder = tmp_path / name
        folder.mkdir()
        with ScriptedModel(paced(delays, three=broken, **answers)) as server:
            runs[name] = await coded(server, folder, model__edit_format="search_replace")
    first, second = runs.values()
    assert (
        first.texts
        == second.texts
        == {f"{name}.py": f"def {name}():\n    return 'right'\n" for name in NAMES}
    )
    assert first.lines == second.lines
    again = await coded(None, tmp_path / "reversed", replay=True, model__edit_format="search_replace")
    assert again.lines == first.lines
    assert again.texts == first.texts
    # Three calls are on their way before any answer comes, and each token says whose it is.
    kinds = [event.type for event in first.events]
    assert kinds[:3] == ["model_call_started"] * 3
    step_of = {event.call: event.step for event in first.of_type("model_call_started")}
    assert list(step_of.values()) == ["one", "two", "three", "two"]
    tokens = Counter[str]()
    shown = dict.fromkeys(step_of.values(), "")
    for event in first.events:
        if event.type == "token":
            shown[step_of[event.call]] += event.text
            tokens[step_of[event.call]] += 1
        elif event.type == "stream_reset":
            shown[step_of[event.call]] = ""
    assert [next(iter(tokens))] == ["three"]
    assert shown == {"one": mended("one"), "two": "nothing of use" + mended("two"), "three": mended("three")}


async def test_the_spend_of_calls_at_once_is_told_as_if_they_had_taken_turns(tmp_path: Path) -> None:
    price = {"scripted": {"input": 10.0, "output": 100.0}}
    with ScriptedModel(paced(REVERSED)) as server:
        done = await coded(server, tmp_path, model__name="scripted", model__prices=price)
    told = [event.spend for event in done.of_type("model_call_finished")]
    assert [spend.calls for spend in told] == [1, 2, 3]
    costs = [event.cost_usd for event in done.of_type("model_call_finished")]
    assert [spend.cost_usd for spend in told] == pytest.approx([costs[0], costs[0] + costs[1], sum(costs)])
    assert told[-1] == done.spend != Spend()


async def test_one_branch_that_fails_costs_the_others_nothing(tmp_path: Path) -> None:
    with ScriptedModel(paced(REVERSED, two=failure(400, "not today"))) as server:
        done = await coded(server, tmp_path)
    assert set(done.texts) == {"one.py", "three.py"}
    assert "step two was not coded" in done.of_type("notice")[-1].text
    again = await coded(None, tmp_path, replay=True)
    assert again.lines == done.lines


async def test_where_all_fail_the_first_failure_is_the_run_s(tmp_path: Path) -> None:
    answers = {name: failure(400, f"{name} is refused") for name in NAMES}
    with ScriptedModel(paced({}, **answers)) as server:
        done = await coded(server, tmp_path)
    assert isinstance(done.error, BadRequestError)
    assert "one is refused" in done.error.what


async def test_who_changes_another_s_file_is_coded_again_on_top_of_it(tmp_path: Path) -> None:
    both = mended("two") + "\n" + mended("one", "'stolen'")
    with ScriptedModel(paced({}, two=[both, mended("two", "'again'")])) as server:
        done = await coded(server, tmp_path)
        prompts = [body["messages"][-1]["content"] for body in server.requests]
    assert "return 'right'" in done.texts["one.py"]
    assert "return 'again'" in done.texts["two.py"]
    assert len(prompts) == 4
    assert "step two is coded again" in done.of_type("notice")[-1].text


async def test_a_limit_that_only_reservations_reach_holds_a_step_back_and_no_more(tmp_path: Path) -> None:
    """All answers are small: what two reserve at once passes the limit, what three use does not."""
    output = {"model__max_output_tokens": 1500}
    with ScriptedModel(paced({})) as server:
        done = await coded(server, tmp_path, limits__max_tokens=4000, **output)
        assert set(done.texts) == {f"{name}.py" for name in NAMES}
        assert len(server.requests) == 3
    again = await coded(None, tmp_path, replay=True, limits__max_tokens=4000, **output)
    assert again.lines == done.lines
    with ScriptedModel(paced({})) as server:
        (tmp_path / "few").mkdir()
        few = await coded(server, tmp_path / "few", limits__max_calls=2)
        assert len(server.requests) == 2
    assert isinstance(few.error, LimitReached)
    assert few.error.limit == "calls"


async def test_at_most_as_many_as_the_setting_says_are_under_way(tmp_path: Path) -> None:
    for width, starts in ((1, 1), (2, 2)):
        folder = tmp_path / str(width)
        folder.mkdir()
        with ScriptedModel(paced({})) as server:
            done = await coded(server, folder, parallel_steps=width)
        kinds = [event.type for event in done.events if event.type.startswith("model_call")]
        assert kinds.index("model_call_finished") == starts
        assert len(done.texts) == 3


async def test_a_plan_of_one_step_is_told_as_before(tmp_path: Path) -> None:
    plan = Plan(explanation="", steps=PLAN.steps[:1])
    with ScriptedModel(paced({})) as server:
        done = await coded(server, tmp_path, plan)
    started, finished = (json.loads(line) for line in done.lines)
    assert set(started) == {"v", "seq", "time", "type", "call", "agent", "model"}
    assert finished["spend"]["calls"] == 1
