"""The critic's verdict is parsed, never guessed; the explainer never needs a model."""

from __future__ import annotations

import pytest

from agentforge.agents.base import Window
from agentforge.agents.critic import Critic, gate_evidence, parse_critique
from agentforge.agents.explainer import Explainer, explain
from agentforge.core.errors import LimitReached
from agentforge.core.gate import GateDecision, GateReason, Rank, ReasonKind, Verdict
from agentforge.core.patch import Patch
from agentforge.core.plan import Plan, Step
from agentforge.models.errors import AuthError, EmptyAnswerError
from tests.agents.scripted import ISSUE, Script, cut

PATCH = Patch(
    diff=b"--- a/pkg/calc.py\n+++ b/pkg/calc.py\n@@ -6 +6 @@\n-    return a - b\n+    return a + b\n",
    files=("pkg/calc.py",),
    added=1,
    removed=1,
)
RANK = Rank(True, 1, 3, True, -2)
VERIFIED = GateDecision(
    verdict=Verdict.VERIFIED, rank=RANK, fail_to_pass=("t::a",), pass_to_pass=("t::b", "t::c")
)
PLAN = Plan(explanation="add subtracts.", steps=(Step(id="s1", description="use +"),))


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("FAIL: this does not PASS", "fail"),
        ("FAIL: this does not PASS the tests", "fail"),
        ("**FAIL** because it is wrong", "fail"),
        ("Verdict: FAIL".replace("Verdict", "verdict"), "fail"),
        ('{"verdict": "FAIL", "reasons": ["it does not PASS"]}', "fail"),
        ('```json\n{"verdict": "pass", "reasons": [],}\n```', "pass"),
        ('{"verdict": "PASS"}', "pass"),
        ("PASS", "pass"),
        ("PASS: the cause is repaired.", "pass"),
        ("PASS? No.", "unparsed"),
        ("PASS, but it does not repair the cause", "unparsed"),
        ("PASSED", "unparsed"),
        ("It would PASS", "unparsed"),
        ("This is not a PASS", "unparsed"),
        ('{"verdict": "PASS or FAIL"}', "unparsed"),
        ('{"verdict": true}', "unparsed"),
        ('{"verdict": "PASS"} {"verdict": "FAIL"}', "unparsed"),
        ('{"ok": "PASS"}', "unparsed"),
        ("", "unparsed"),
    ],
)
def test_af14_the_verdict_is_parsed(text, verdict):
    assert parse_critique(text).verdict == verdict


def test_reasons_are_kept():
    critique = parse_critique('{"verdict": "FAIL", "reasons": ["a", 3, " b "]}')
    assert critique.reasons == ("a", "b")
    assert parse_critique("FAIL: hard-coded").reasons == ("hard-coded",)


async def test_critic_sees_issue_patch_and_evidence():
    model = Script('{"verdict": "PASS", "reasons": ["fine"]}')
    critique = await Critic(model).judge(ISSUE, PATCH, VERIFIED)
    assert critique.verdict == "pass"
    for part in (ISSUE.text, "+    return a + b", "Gate: verified", "t::a"):
        assert part in model.prompt()


async def test_critic_is_asked_once_more_then_unparsed():
    model = Script("I like it.", '{"verdict": "FAIL", "reasons": []}')
    assert (await Critic(model).judge(ISSUE, PATCH, VERIFIED)).verdict == "fail"
    assert "I like it" not in model.prompt(1)
    model = Script("I like it.", cut('{"verdict": "PA'))
    critique = await Critic(model).judge(ISSUE, PATCH, VERIFIED)
    assert (critique.verdict, len(model.requests)) == ("unparsed", 2)


@pytest.mark.parametrize(
    "error", [AuthError("refused"), EmptyAnswerError("x"), LimitReached("cost", "spent")]
)
async def test_a_failing_critic_loses_nothing(error):
    critique = await Critic(Script(error)).judge(ISSUE, PATCH, VERIFIED)
    assert critique.verdict == "unparsed"
    assert "could not be asked" in critique.reasons[0]


def test_gate_evidence_names_reasons():
    reason = GateReason(kind=ReasonKind.BROKEN, test_id="t::z", text="passed before")
    refused = GateDecision(verdict=Verdict.REFUSED, rank=RANK, reasons=(reason,))
    assert "broken t::z passed before" in gate_evidence(refused)


def test_explanation_without_a_model():
    text = explain(PLAN, PATCH, VERIFIED)
    assert text.startswith("Verified")
    for part in ("add subtracts.", "pkg/calc.py (+1 -1 lines)", "- t::a", "2 tests passed before"):
        assert part in text
    assert text == explain(PLAN, PATCH, VERIFIED)
    unproved = GateDecision(verdict=Verdict.UNVERIFIED, rank=RANK)
    assert explain(None, PATCH, unproved).startswith("Unverified")
    assert "add subtracts" not in explain(PLAN.model_copy(update={"fallback": True}), PATCH, VERIFIED)


def test_long_lists_of_tests_are_cut():
    many = VERIFIED.model_copy(update={"fail_to_pass": tuple(f"t::{n}" for n in range(30))})
    assert "- and 20 more" in explain(None, PATCH, many)


@pytest.mark.parametrize(
    ("reply", "told"),
    [("It adds now.", True), (AuthError("no"), False), (cut("It"), False), ("  ", False)],
)
async def test_explainer_falls_back_to_the_evidence(reply, told):
    text = await Explainer(Script(reply), window=Window(4000, 500)).write(ISSUE, PLAN, PATCH, VERIFIED)
    assert text.endswith(explain(PLAN, PATCH, VERIFIED))
    assert text.startswith("It adds now.") is told
