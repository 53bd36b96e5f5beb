"""MARS through `solve`: one file, standard input and output, Python and C++17, judged by test ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentforge.core.events import Event
from agentforge.core.problem import Example, Judge, Problem, ProblemRecord
from agentforge.evaluation.judge import judge_program
from agentforge.orchestrator.solve import problem_task, solve_problem
from agentforge.sandbox.docker_sandbox import DockerSandbox
from tests.orchestrator.test_mars import check, script
from tests.support.model_server import ScriptedModel

pytestmark = pytest.mark.docker

EXAMPLES = (
    Example(stdin="3\n1 2 3\n", expected="6\n"),
    Example(stdin="2\n2000000000 2000000000\n", expected="4000000000\n"),
)
HIDDEN = Judge(checks=(Example(stdin="1\n-5\n", expected="-5\n"), Example(stdin="0\n\n", expected="0\n")))
NARROW = """#include <iostream>
int main() {
  int n, x, s = 0;
  std::cin >> n;
  while (std::cin >> x) s += x;
  std::cout << s;
}
"""
PROGRAMS = {
    "python": (
        "print(sum(map(int, input().split())))",
        "input()\nprint(sum(map(int, input().split())))  # all of them",
    ),
    "cpp": (NARROW, f"```cpp\n// wide enough\n{NARROW.replace('int n, x, s', 'long long n, x, s')}```"),
}


def answer(program: str) -> str:
    return json.dumps({"action": "write_code", "new_code": program, "stop": False, "confidence": 1.0})


@pytest.mark.parametrize("language", ["python", "cpp"])
async def test_ma_r12_a_program_is_written_repaired_and_judged(
    configure: Callable[..., Any], language: str
) -> None:
    problem = Problem(
        id="sum",
        title="Prefix sum of a subarray",
        statement="Read n, then n integers; print their sum.",
        kind="stdio",
        language=language,  # type: ignore[arg-type]
        examples=EXAMPLES,
    )
    first, second = PROGRAMS[language]
    events: list[Event] = []
    replies = script(
        ("Searching and sorting",),
        [
            answer(first),
            json.dumps({**json.loads(check()), "self_check_action": "repair_code", "new_code": second}),
        ],
    )
    with ScriptedModel(replies) as server:
        settings = configure(model__base_url=server.base_url, workflow="mars", memory__enabled=False)
        solution = await solve_problem(problem, settings, listener=events.append)
        prompts = [body["messages"][0]["content"] for body in server.requests]
    assert solution.run.outcome == "verified", solution.run.summary
    assert solution.program is not None
    assert "all of them" not in solution.program
    assert "wide enough" not in solution.program
    (turn,) = [event.turn for event in events if event.type == "relay_turn"]
    assert turn.repair == "accepted"
    (team,) = [event.team for event in events if event.type == "team_formed"]
    assert (team.pool, team.names) == ("algorithms", ("searching",))
    assert ("C++17" in prompts[-1]) == (language == "cpp")
    assert problem_task(problem, "x").apt == (("g++",) if language == "cpp" else ())
    async with DockerSandbox(settings.sandbox, "judge", solution.run.run_dir) as sandbox:
        record = ProblemRecord(problem=problem, judge=HIDDEN)
        judged = await judge_program(sandbox, record, solution.program)
        broken = await judge_program(
            sandbox, record, "int main() { return oops; }" if language == "cpp" else "oops"
        )
    assert (judged.passed, judged.tests_passed, judged.tests_total) == (True, 2, 2)
    assert not broken.passed
