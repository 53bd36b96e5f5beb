"""The planner: lenient about form, strict about meaning, never without a plan."""

from __future__ import annotations

import json

import pytest

from agentforge.agents.base import Window
from agentforge.agents.plan_parser import PlanProblem, parse_plan
from agentforge.agents.planner import Planner, fallback_plan
from agentforge.core.retrieval import Episode, Retrieved, Symbol
from agentforge.core.task import Issue
from agentforge.models.errors import AuthError, EmptyAnswerError
from tests.agents.scripted import CALC, ISSUE, TREE, Script, cut, tree_of

GOOD = {
    "explanation": "add subtracts",
    "steps": [
        {"id": "s1", "agent": "coder", "description": "use +", "files": ["pkg/calc.py"], "symbols": ["add"]},
        {"id": "s2", "agent": "tester", "description": "test it"},
        {"id": "s3", "agent": "critic", "description": "look at it"},
    ],
}
ADD = Symbol(path="pkg/calc.py", name="add", kind="function", start_line=4, end_line=6, text=CALC)
FOUND = Retrieved(
    symbols=(ADD, ADD.model_copy(update={"path": "tests/test_calc.py", "name": "test_double"})),
    episodes=(Episode(id="e1", repository="r", issue="an old issue", patch="-a\n+b", summary="old"),),
)


def plan_of(*steps: dict[str, object]) -> str:
    return json.dumps({"explanation": "x", "steps": list(steps)})


def test_af13_without_depends_on_steps_run_one_after_the_other():
    plan = parse_plan(json.dumps(GOOD), TREE)
    assert [(step.id, step.agent, step.depends_on) for step in plan.steps] == [
        ("s1", "coder", ()),
        ("s2", "tester", ("s1",)),
        ("s3", "critic", ("s2",)),
    ]
    assert not plan.fallback


def test_af13_explicit_dependencies_stay_and_order_the_steps():
    plan = parse_plan(
        plan_of(
            {"id": "t", "agent": "tester", "description": "d", "depends_on": ["c"]},
            {"id": "c", "description": "d", "depends_on": []},
            {"id": "k", "description": "d", "depends_on": []},
        ),
        TREE,
    )
    assert [step.id for step in plan.steps] == ["c", "t", "k"]
    assert plan.steps[2].depends_on == ()


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{json.dumps(GOOD)}\n```",
        f"Here is my plan:\n```\n{json.dumps(GOOD, indent=1)}\n```\nGood luck!",
        f"Sure! {json.dumps(GOOD)} That is all.",
        json.dumps(GOOD).replace("]}", "],}").replace("}]", "},]"),
        json.dumps({"plan": GOOD}),
    ],
)
def test_af20_fenced_or_mended_json_is_a_plan(text):
    plan = parse_plan(text, TREE)
    assert plan.explanation == "add subtracts"
    assert [step.agent for step in plan.steps] == ["coder", "tester", "critic"]
    assert plan.steps[0].symbols == ("add",)


def test_af20_a_bare_list_or_one_step_is_a_plan():
    assert len(parse_plan(json.dumps(GOOD["steps"]), TREE).steps) == 3
    (step,) = parse_plan('{"agent": "coder", "desc": "use +", "file": "pkg/calc.py"}', TREE).steps
    assert (step.id, step.files, step.description) == ("s1", ("pkg/calc.py",), "use +")


@pytest.mark.parametrize(
    "text", ["[1, 2]", '["a"]', '{"steps": "many"}', '{"a": 1}', "no plan", '{"steps": [3]}', '{"steps": {}}']
)
def test_af20_json_that_is_no_plan_is_a_problem_not_a_crash(text):
    with pytest.raises(PlanProblem):
        parse_plan(text, TREE)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([{"description": "d", "agent": "wizard"}], 'unknown agent "wizard"'),
        ([{"agent": "coder"}], '"description" is missing'),
        ([{"description": "d", "files": ["pkg/calk.py"]}], "did you mean pkg/calc.py"),
        ([{"description": "d", "files": ["/etc/passwd"]}], "not a path inside"),
        ([{"description": "d", "files": ["../x.py"]}], "not a path inside"),
        ([{"description": "d", "files": [".git/config"]}], "not a path inside"),
        ([{"description": "d", "files": [3]}], "list of strings"),
        ([{"description": "d", "agent": "tester"}], 'no step has the agent "coder"'),
        ([], '"steps" is empty'),
        ([{"id": "a", "description": "d"}, {"id": "a", "description": "d"}], "unique"),
        ([{"id": "a", "description": "d", "depends_on": ["z"]}], "unknown steps: z"),
        (
            [
                {"id": "a", "description": "d", "depends_on": ["b"]},
                {"id": "b", "description": "d", "depends_on": ["a"]},
            ],
            "cycle among: a, b",
        ),
        ([{"id": "a", "description": "d", "depends_on": ["a"]}], "cycle"),
        ([{"description": "d"}] * 21, "at most 20"),
    ],
)
def test_schema_errors_are_words(steps, words):
    with pytest.raises(PlanProblem, match=words):
        parse_plan(plan_of(*steps), TREE)


def test_paths_are_put_right_when_there_is_one_reading():
    plan = parse_plan(
        plan_of({"description": "d", "files": ["./pkg/calc.py", "calc.py", "a/pkg/calc.py"]}), TREE
    )
    assert plan.steps[0].files == ("pkg/calc.py",)


def test_new_files_must_be_meant():
    steps = {"description": "Create a module for parsing", "files": ["pkg/new.py"]}
    assert parse_plan(plan_of(steps), TREE).steps[0].files == ("pkg/new.py",)
    steps = {"description": "d", "files": ["pkg/other.py"], "new": True}
    assert parse_plan(plan_of(steps), TREE).steps[0].files == ("pkg/other.py",)


def test_ids_are_given_and_made_safe():
    plan = parse_plan(
        plan_of({"id": 1, "description": "d"}, {"description": "d"}, {"id": "a b/c", "description": "d"}),
        TREE,
    )
    assert [step.id for step in plan.steps] == ["1", "s2", "a-b-c"]


async def test_the_prompts_example_is_real_because_weak_models_copy_it():
    model = Script(json.dumps(GOOD))
    await Planner(model).plan(ISSUE, FOUND, TREE)
    assert '"files": ["pkg/calc.py"], "symbols": ["add"]' in model.prompt()


async def test_an_unknown_file_is_answered_with_the_files_that_were_shown():
    model = Script(plan_of({"description": "d", "files": ["zzz"]}), json.dumps(GOOD))
    await Planner(model).plan(ISSUE, FOUND, TREE)
    assert "did you mean pkg/calc.py or tests/test_calc.py?" in model.prompt(1)


async def test_planner_sees_issue_code_and_episodes():
    model = Script(json.dumps(GOOD))
    plan = await Planner(model).plan(ISSUE, FOUND, TREE)
    assert plan.steps[0].files == ("pkg/calc.py",)
    prompt = model.prompt()
    assert ISSUE.text in prompt
    assert "return a - b" in prompt
    assert "-a\n+b" in prompt
    assert model.requests[0].agent == "planner"


async def test_complaint20_reask_holds_the_schema_error_and_not_the_broken_text():
    broken = plan_of({"description": "d", "agent": "wizard", "nonsense": "GARBAGE"})
    model = Script(broken, json.dumps(GOOD))
    problems: list[str] = []
    plan = await Planner(model, seed=7).plan(ISSUE, FOUND, TREE, on_problem=problems.append)
    assert not plan.fallback
    assert len(problems) == 1
    assert 'unknown agent "wizard"' in model.prompt(1)
    assert "GARBAGE" not in model.prompt(1)
    assert len(model.requests[1].messages) == len(model.requests[0].messages)
    assert [request.seed for request in model.requests] == [7, 8]


async def test_complaint20_a_cut_answer_is_not_invalid_json():
    model = Script(cut(json.dumps(GOOD)[:60]), json.dumps(GOOD))
    plan = await Planner(model).plan(ISSUE, FOUND, TREE)
    assert not plan.fallback
    assert "cut off at the output limit" in model.prompt(1)
    assert "no JSON" not in model.prompt(1)


async def test_complaint20_at_most_two_reasks_then_the_plain_plan():
    model = Script("no", cut("{"), EmptyAnswerError("nothing was said"))
    plan = await Planner(model).plan(ISSUE, FOUND, TREE)
    assert len(model.requests) == 3
    assert plan.fallback
    (step,) = plan.steps
    assert (step.agent, step.files) == ("coder", ("pkg/calc.py",))
    assert "the answer was empty" in plan.explanation


async def test_errors_of_the_endpoint_pass_through():
    with pytest.raises(AuthError):
        await Planner(Script(AuthError("refused"))).plan(ISSUE, FOUND, TREE)


def test_fallback_plan_without_retrieval_looks_at_a_small_tree_only():
    plan = fallback_plan(Retrieved(), TREE, "nothing found")
    assert plan.fallback
    assert plan.steps[0].files == ("pkg/__init__.py", "pkg/calc.py")
    large = tree_of({f"m{number}.py": "" for number in range(4)})
    assert fallback_plan(Retrieved(), large, "nothing found").steps[0].files == ()


async def test_complaint16_a_long_issue_fits_a_window_of_2000_tokens():
    model = Script(json.dumps(GOOD))
    issue = Issue(text="The sum is wrong. " * 5000)
    await Planner(model, window=Window(2000, 500)).plan(issue, FOUND, TREE)
    assert len(model.prompt()) < 1500 * 3.5
    assert "characters left out" in model.prompt()
