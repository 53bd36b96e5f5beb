"""MARS and its conditions against a scripted model, real git, real Docker: traces, calls, prompts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.orchestrator.replay import replay_run
from tests.support.model_server import ScriptedModel

pytestmark = pytest.mark.docker

TEST = "tests/test_split.py::test_nothing_is_lost"
TESTS = (
    "from shop.money import split\n\n\n"
    "def test_nothing_is_lost():\n    assert sum(split(10, 3)) == 10\n\n\n"
    "def test_first_ones_take_more():\n    assert split(10, 3) == [4, 3, 3]\n"
)
TARGETS = (TEST, "tests/test_split.py::test_first_ones_take_more")


def code(body: str) -> str:
    return f"shop/money.py\n```python\ndef split(cents, people):\n{body}```\n"


HALF = code(
    "    share = cents // people\n    return [share] * (people - 1) + [cents - share * (people - 1)]\n"
)
RIGHT = code(
    "    share, left = divmod(cents, people)\n    return [share + 1] * left + [share] * (people - left)\n"
)
WORSE = code("    return [cents] * people\n")


def draft(answer: str, **values: Any) -> str:
    head = {"action": "write_code", "new_code": "", "stop": False, "confidence": 0.5, **values}
    return f"{json.dumps(head)}\n\n{answer}"


def check(answer: str = "", **values: Any) -> str:
    action = "repair_code" if answer else "keep_code"
    head = {"self_check_action": action, "new_code": "", "stop": False, "next_agent": None, **values}
    return f"{json.dumps(head)}\n\n{answer}"


def assess(*names: str) -> Callable[[dict[str, Any]], str]:
    """Everyone in `names` calls the task its own, by title."""

    def answer(body: dict[str, Any]) -> str:
        able = any(f"Your specialty: {name}." in body["messages"][0]["content"] for name in names)
        return json.dumps({"can_solve": able, "is_relevant_to_specialty": able, "confidence": 0.9})

    return answer


def script(names: tuple[str, ...], turns: list[str], **more: Any) -> dict[str, Any]:
    """Assessments and probes by what is asked; turns in order."""
    waiting = iter(turns)

    def specialist(body: dict[str, Any]) -> str | None:
        system = body["messages"][0]["content"]
        if "Be selective" in system:
            return assess(*names)(body)
        if '"can_start"' in system:
            return json.dumps({"can_start": True, "start_confidence": 0.5, "owned_subproblem": "shares"})
        return next(waiting, None)

    return {"specialist": specialist, **more}


@pytest.fixture
def bank(shop: Path) -> Path:
    (shop / "tests/test_split.py").write_text(TESTS)
    from tests.orchestrator.conftest import commit_all

    return commit_all(shop)


async def run(bank: Path, configure: Any, fix: Any, replies: Any, workflow: str = "mars", **more: Any) -> Any:
    with ScriptedModel(replies) as server:
        settings = configure(
            model__base_url=server.base_url, workflow=workflow, memory__enabled=False, **more
        )
        done = await fix(bank, settings, target_tests=TARGETS)
        done.settings = settings
        done.asked = [body["_agent"] for body in server.requests]
        done.prompts = [
            "\n".join(message["content"] for message in body["messages"]) for body in server.requests
        ]
    return done


def trace(done: Any) -> list[str]:
    return [event.node for event in done.of_type("node_started")]


def turns(done: Any) -> list[Any]:
    return [event.turn for event in done.of_type("relay_turn")]


START = ["environment", "baseline", "reproduce", "retrieve", "team"]
FULL = ["draft", "draft_apply", "execute", "gate", "check"]
REPAIR = ["repair_apply", "repair_execute", "repair_gate"]
ASSESSED = 11


async def test_a_relay_hands_over_and_repairs_until_the_gate_accepts(bank, configure, fix):
    replies = script(
        ("Numbers", "Collections and iteration"),
        [
            draft(HALF),
            check(next_agent="collections_iteration", handoff_instruction="give the rest to the first ones"),
            draft(WORSE),
            check(RIGHT),
        ],
    )
    done = await run(bank, configure, fix, replies)
    assert done.result.outcome == "verified", done.result.summary
    assert trace(done) == [*START, *FULL, "hand_over", *FULL, *REPAIR, "hand_over", "explain", "store"]
    assert done.asked == ["specialist"] * (ASSESSED + 2 + 4)
    first, second = turns(done)
    assert (first.specialist, first.handoff.receiver) == ("numbers", "collections_iteration")
    assert first.passing == (TEST,)
    assert first.progress
    assert (second.repair, second.stopped, second.progress) == ("accepted", "accepted", True)
    assert "give the rest to the first ones" in done.prompts[-2]
    assert "FAILED" not in done.prompts[-2]  # MA-R9: no raw report goes to the next specialist
    assert "FAILED" in done.prompts[-1]
    again = await replay_run(done.result.run_id, done.settings, lambda event: None)
    assert again.replay_matches, again.difference


async def test_ma_r6_a_repair_that_loses_a_test_is_rejected_and_the_best_goes_on(bank, configure, fix):
    replies = script(
        ("Numbers", "Collections and iteration"),
        [draft(HALF), check(WORSE, next_agent="collections_iteration"), draft(WORSE), check(stop=True)],
    )
    done = await run(bank, configure, fix, replies)
    first, second = turns(done)
    assert first.repair == "rejected"
    assert TEST in first.lost
    assert second.restored
    assert second.passing == (TEST,)
    assert second.stopped == "stop"
    assert "cents - share * (people - 1)" in done.prompts[-2]  # the shared code is the better draft
    assert done.result.exit_code == 1


async def test_ma_r7_an_unusable_relay_stops_when_nobody_is_left(bank, configure, fix):
    replies = script(("Numbers",), ["no idea", check()])
    done = await run(bank, configure, fix, replies)
    (only,) = turns(done)
    assert (only.draft, only.stopped, only.progress) == ("unusable", "nobody_left", False)
    assert trace(done) == [*START, "draft", "draft_apply", "check", "hand_over", "explain", "store"]
    assert done.result.patch is None


async def test_nobody_volunteers_and_the_best_match_works_alone(bank, configure, fix):
    done = await run(bank, configure, fix, script((), [draft(RIGHT), check()]))
    (formed,) = done.of_type("team_formed")
    assert not formed.team.volunteered
    assert formed.team.names == ("numbers",)
    assert done.result.outcome == "verified"


async def test_the_fixer_mends_imports_and_may_do_nothing_else(bank, configure, fix):
    broken = code("    a, b = dvmd(cents, people)\n    return [a + 1] * b + [a] * (people - b)\n")
    mended = (
        "shop/money.py\n```python\nfrom builtins import divmod as dvmd\n\n\n"
        "def with_tax(cents, percent):\n"
        '    """The amount with tax, rounded half up."""\n    return cents + cents * percent // 100\n\n\n'
        "def split(cents, people):\n"
        "    a, b = dvmd(cents, people)\n    return [a + 1] * b + [a] * (people - b)\n```\n"
    )
    for answer, outcome in ((mended, "verified"), (RIGHT, "no_patch")):
        replies = script(("Numbers",), [draft(broken), check()], fixer=[draft(answer)])
        done = await run(bank, configure, fix, replies)
        assert done.asked.count("fixer") == 1
        assert done.result.outcome == outcome, done.result.summary


@pytest.mark.parametrize(
    ("workflow", "replies", "asked", "nodes"),
    [
        ("mars-direct", {"coder": [RIGHT]}, 1, None),
        ("mars-single-rag", script(("Numbers", "Text and parsing"), [draft(RIGHT)]), ASSESSED + 1, None),
        (
            "mars-ensemble",
            script(("Numbers", "Text and parsing"), [draft(WORSE), draft(HALF)], manager=[draft(RIGHT)]),
            ASSESSED + 3,
            [*START, "ensemble", "merge", "relay_apply", "execute", "gate", "explain"],
        ),
        (
            "mars-base-relay",
            script(("Numbers", "Text and parsing"), [draft(HALF), draft(RIGHT, stop=True)]),
            ASSESSED + 2 + 2,
            [
                *START,
                *["draft", "draft_apply", "hand_over"] * 2,
                *["last_apply", "execute", "gate", "explain"],
            ],
        ),
    ],
)
async def test_every_condition_of_the_paper_makes_the_calls_it_names(
    bank, configure, fix, workflow, replies, asked, nodes
):
    done = await run(bank, configure, fix, replies, workflow, model__edit_format="symbol")
    assert done.result.outcome == "verified", done.result.summary
    assert len(done.asked) == asked
    if nodes is not None:
        assert trace(done) == nodes
