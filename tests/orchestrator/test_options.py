"""What the user may choose changes what happens, not only what is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import ExitCode
from agentforge.sandbox.base_image import ensure_base_image
from tests.orchestrator.conftest import SHOP, make_repository
from tests.orchestrator.test_five_agents import PASS, PLAN, RIGHT, TESTS, script
from tests.support.model_server import ScriptedModel

pytestmark = pytest.mark.docker

ONCE = RIGHT.replace("share + 1] * people", "share] * people", 1)


def body_of_split(line: str) -> str:
    code = f"def split(cents, people):\n    share = cents // people\n    {line}\n"
    return f"```python\n{code}```"


@pytest.mark.parametrize("retries", [0, 2])
async def test_af12_eg01_retries_n_means_n_regenerations_and_n_plus_one_executions(
    retries: int, shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    wrong = ["return [share + 1] * people", "return [share + 2] * people", "return [share] * (people + 1)"]
    replies = script(coder=[body_of_split(wrong[0])], debugger=[body_of_split(line) for line in wrong[1:]])
    with ScriptedModel(replies) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="symbol", retries=retries)
        run = await fix(shop, settings)
        asked = [body["_agent"] for body in server.requests]
    assert run.result.exit_code == ExitCode.NO_VERIFIED_PATCH
    assert len(run.of_type("gate_decided")) == retries + 1
    assert asked.count("debugger") == retries


async def test_eg19_eg20_the_debugger_sees_call_expected_got_and_the_candidate(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(script()) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        await fix(shop, settings)
        (prompt,) = [str(body["messages"]) for body in server.requests if body["_agent"] == "debugger"]
    for line in ("call:     sum(split(10, 3))", "expected: 10", "got:      12"):
        assert line in prompt
    assert "share + 1] * people" in prompt


@pytest.mark.parametrize("scope", ["related", "all"])
async def test_the_scope_decides_which_tests_judge_and_the_decision_says_so(
    scope: str, tmp_path: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    strangers = {
        "tests/test_alone.py": "def test_json():\n    import json\n    assert json.dumps(1) == '1'\n"
    }
    repository = make_repository(tmp_path / "shop", SHOP | strangers)
    with ScriptedModel({"planner": [PLAN], "coder": [ONCE], "tester": [TESTS], "critic": [PASS]}) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff", tests_scope=scope)
        run = await fix(repository, settings)
    assert run.result.outcome == "verified", run.result.summary
    assert run.result.decision.scope == scope
    assert ("tests/test_alone.py::test_json" in run.result.decision.pass_to_pass) == (scope == "all")


@pytest.mark.parametrize("enabled", [True, False])
async def test_eg12_memory_on_changes_the_next_planners_prompt_and_off_does_not(
    enabled: bool, shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    replies = {"planner": [PLAN] * 2, "coder": [ONCE] * 2, "tester": [TESTS] * 2, "critic": [PASS] * 2}
    with ScriptedModel(replies) as server:
        settings = configure(
            model__base_url=server.base_url, model__edit_format="diff", memory__enabled=enabled
        )
        first = await fix(shop, settings)
        second = await fix(shop, settings)
        prompts = [str(body["messages"]) for body in server.requests if body["_agent"] == "planner"]
    assert [run.result.outcome for run in (first, second)] == ["verified", "verified"]
    assert bool(first.of_type("episode_stored")) == enabled
    remembered = "[share + 1] * left"
    assert remembered not in prompts[0]
    assert (remembered in prompts[1]) == enabled


async def test_a_test_command_that_fails_on_the_base_is_the_target(
    tmp_path: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    check = "from shop.money import split\nassert sum(split(10, 3)) == 10, split(10, 3)\n"
    repository = make_repository(tmp_path / "shop", SHOP | {"check.py": check})
    with ScriptedModel({"planner": [PLAN], "coder": [ONCE], "critic": [PASS]}) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(repository, settings, test_command="python check.py")
    assert run.result.outcome == "verified", run.result.summary
    assert run.result.decision.fail_to_pass == ("command",)


async def test_the_command_its_junit_file_and_its_image_are_the_users(
    tmp_path: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    """A Dockerfile makes the image, a JUnit report tells the command's tests apart."""
    check = (
        "from shop.money import split\n"
        "bad = '' if sum(split(10, 3)) == 10 else '<failure/>'\n"
        'case = f\'<testcase name="sum">{bad}</testcase><testcase name="mark"/>\'\n'
        "open('out.xml', 'w').write(f'<testsuite>{case}</testsuite>')\n"
        "assert open('/mark').read().strip() == 'here'\n"
        "raise SystemExit(bool(bad))\n"
    )
    repository = make_repository(tmp_path / "shop", SHOP | {"check.py": check})
    base = ensure_base_image(SandboxSettings())
    dockerfile = f"FROM {base}\nUSER 0\nRUN echo here > /mark\nUSER 1000\n"
    with ScriptedModel({"planner": [PLAN], "coder": [ONCE], "critic": [PASS]}) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(
            repository,
            settings,
            test_command="python check.py",
            dockerfile=dockerfile,
            junit="out.xml",
        )
    assert run.result.outcome == "verified", run.result.summary
    assert set(run.result.decision.fail_to_pass) == {"command", "sum"}
    assert "mark" in run.result.decision.pass_to_pass


async def test_debian_packages_reach_the_environment(
    tmp_path: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    """They are the environment's business: one that is no package ends the run before anything is built."""
    repository = make_repository(tmp_path / "shop", SHOP)
    with ScriptedModel({"planner": [PLAN]}) as server:
        run = await fix(repository, configure(model__base_url=server.base_url), apt=("--yes",))
    assert run.result.exit_code == ExitCode.USAGE
    assert "not the name of a Debian package: --yes" in run.result.summary


async def test_edits_of_tests_are_left_out_and_said(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    """A candidate that deletes the test it breaks is judged by that test all the same."""
    cheat = (
        ONCE.replace("-9,4 +9,5", "-9,3 +9,4").rstrip().removesuffix("```")
        + "--- a/tests/test_money.py\n+++ b/tests/test_money.py\n@@ -1,5 +1,2 @@\n"
        + " from shop.money import split, with_tax\n \n-\n-def test_even():\n"
        + "-    assert split(100, 4) == [25, 25, 25, 25]\n```\n"
    )
    with ScriptedModel({"planner": [PLAN], "coder": [cheat], "tester": [TESTS], "critic": [PASS]}) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff", retries=0)
        run = await fix(shop, settings)
    assert run.result.outcome == "verified", run.result.summary
    assert run.result.patch.files == ("shop/money.py",)
    assert any("tests/test_money.py" in event.text for event in run.of_type("notice"))
    assert "tests/test_money.py::test_even" in run.result.decision.pass_to_pass
