"""How runs end: a critic with a veto, an interruption, a limit, a fault, a defect; and their replays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.errors import ConfigError, ExitCode, RecordError, SandboxLost
from agentforge.core.events import Event
from agentforge.core.gate import GateDecision, GateReason, Rank, ReasonKind, Verdict
from agentforge.core.patch import Candidate, Patch
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport
from agentforge.core.state import CriticVerdict, Judged, RunState
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.orchestrator import service
from agentforge.orchestrator.replay import replay_run
from agentforge.orchestrator.result import ending_of_state, held_back, interrupted
from agentforge.orchestrator.service import choose_workflow, run_fix
from agentforge.orchestrator.store import RunStore
from tests.orchestrator.conftest import ISSUE, SHOP, make_repository
from tests.orchestrator.test_five_agents import PASS, PLAN, RIGHT, script
from tests.support.model_server import Reply, ScriptedModel, failure

ONCE = RIGHT.replace("share + 1] * people", "share] * people", 1)


def state(verdict: Verdict = Verdict.VERIFIED, critic: str | None = None) -> RunState:
    task = RepairTask(repository=RepositoryRef(source="/r"), issue=Issue(text="x"))
    patch = Patch(diff=b"d\n", files=("a.py",))
    reasons = (GateReason(kind=ReasonKind.NO_TARGET, text="no test shows the bug"),)
    decision = GateDecision(
        verdict=verdict, rank=Rank(True, 1, 1, True, -1), reasons=reasons, fail_to_pass=("t",)
    )
    judged = Judged(
        candidate=Candidate(id="c", patch=patch, changes={}, origin="coder"),
        baseline=TestReport(),
        report=TestReport(),
        decision=decision,
    )
    said = None if critic is None else CriticVerdict(verdict=critic, reasons=("because",))
    return RunState(task=task, base_commit="b", best=judged, critic=said)


@pytest.mark.parametrize(
    ("critic", "outcome", "code"),
    [
        ("pass", "verified", ExitCode.VERIFIED),
        ("fail", "no_patch", ExitCode.NO_VERIFIED_PATCH),
        ("unparsed", "unverified", ExitCode.UNVERIFIED),
        (None, "unverified", ExitCode.UNVERIFIED),
    ],
)
def test_as_a_gate_only_a_clear_pass_of_the_critic_lets_a_patch_through(
    critic: str | None, outcome: str, code: ExitCode
) -> None:
    ending = ending_of_state(state(critic=critic), "gate")
    assert (ending.outcome, ending.exit_code) == (outcome, code)
    assert held_back(state(critic=critic).critic, "gate") == (outcome != "verified")
    if code is ExitCode.UNVERIFIED:
        assert "the critic gave no verdict" in ending.summary
    assert ending_of_state(state(critic=critic), "advisory").outcome == "verified"


def test_a_critic_that_must_decide_needs_a_workflow_that_asks_one(configure: Callable[..., Any]) -> None:
    settings = configure(critic="gate", workflow="search")
    with pytest.raises(ConfigError, match="asks no critic"):
        choose_workflow(settings)


def test_an_interruption_keeps_what_was_verified_and_says_so() -> None:
    kept = interrupted(state(), "advisory")
    assert kept.with_patch
    assert (kept.outcome, kept.exit_code) == ("interrupted", ExitCode.INTERRUPTED)
    assert "1 target test now passes" in kept.summary
    assert not interrupted(state(critic="fail"), "gate").with_patch
    assert not interrupted(state(Verdict.UNVERIFIED), "off").with_patch


def nothing_made(**changes: Any) -> RunState:
    task = RepairTask(
        repository=RepositoryRef(source="/r"),
        issue=Issue(text="x"),
        target_tests=("tests/test_a.py::test_a",),
    )
    return RunState(task=task, base_commit="b", **changes)


def test_a_search_without_a_result_ends_with_its_own_reason() -> None:
    ending = ending_of_state(nothing_made(search_reasons=("slow", "every candidate was tried")), "off")
    assert ending.summary == "no single edit makes the target tests pass: every candidate was tried"


def test_a_base_that_did_not_run_is_the_reason() -> None:
    report = TestReport(cause=Cause.OOM, cause_detail="out of memory (512 MB)")
    ending = ending_of_state(nothing_made(baseline=report), "off")
    assert "oom: out of memory (512 MB)" in ending.summary


@pytest.mark.parametrize("test", ["tests/test_a.py", "tests/test_a.py::test_a"])
def test_a_module_that_the_target_cannot_import_is_named_with_the_way_to_install_it(test: str) -> None:
    failure = TestFailure(exception="ModuleNotFoundError", message="No module named 'yaml.nodes'")
    other = TestFailure(exception="ModuleNotFoundError", message="No module named 'torch'")
    report = TestReport(
        outcomes={"a_other.py": Outcome.ERROR, test: Outcome.ERROR},
        failures={"a_other.py": other, test: failure},
    )
    ending = ending_of_state(nothing_made(baseline=report), "off")
    assert "no module named 'yaml'" in ending.summary
    assert "--setup 'pip install yaml'" in ending.hint


# --- whole runs -------------------------------------------------------------------------------------------


async def replayed(run_id: str, settings: Any) -> None:
    again = await replay_run(run_id, settings, lambda event: None)
    assert again.replay_matches, again.difference


@pytest.mark.docker
async def test_a_critic_as_gate_that_cannot_answer_holds_the_patch_back(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    replies = {"planner": [PLAN], "coder": [ONCE], "critic": [failure(401, "no")], "tester": ["no"] * 3}
    with ScriptedModel(replies) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff", critic="gate")
        run = await fix(shop, settings, issue=f"{ISSUE}\n\n```python\n>>> sum(split(10, 3))\n10\n```\n")
    assert run.result.exit_code == ExitCode.UNVERIFIED, run.result.summary
    assert "the critic gave no verdict" in run.result.summary
    assert run.of_type("critic_decided")[0].veto
    assert not run.of_type("episode_stored")


@pytest.mark.docker
async def test_an_interrupted_run_keeps_its_verified_patch_and_replays_up_to_the_interruption(
    shop: Path, configure: Callable[..., Any]
) -> None:
    with ScriptedModel(script(coder=[ONCE], critic=[Reply(PASS, delay_s=60)])) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        task = RepairTask(repository=RepositoryRef(source=str(shop)), issue=Issue(text=ISSUE, title="split"))
        work: asyncio.Task[Any]

        def listen(event: Event) -> None:
            if event.type == "model_call_started" and event.agent == "critic":
                asyncio.get_running_loop().call_later(0.3, work.cancel)

        work = asyncio.ensure_future(run_fix(task, settings, listener=listen))
        result = await work
    assert result.exit_code == ExitCode.INTERRUPTED
    assert "now pass" in result.summary
    assert (result.run_dir / "patch.diff").read_bytes() == result.patch.diff
    await replayed(result.run_id, settings)


@pytest.mark.docker
async def test_a_run_that_the_time_limit_ended_replays_up_to_there(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(script(planner=[Reply(PLAN, delay_s=30.0)])) as server:
        settings = configure(model__base_url=server.base_url, limits__time_limit_s=9)
        run = await fix(shop, settings)
    assert run.result.exit_code == ExitCode.LIMIT
    await replayed(run.result.run_id, settings)


@pytest.mark.docker
async def test_a_search_with_a_time_limit_replays(
    tmp_path: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    settings = configure(limits__time_limit_s=120, memory__enabled=False)
    wrong = SHOP["shop/money.py"].replace("return cents + cents", "return cents - cents")
    shop = make_repository(tmp_path / "wrong", SHOP | {"shop/money.py": wrong})
    task = {"target_tests": ("tests/test_money.py::test_tax",)}
    run = await fix(shop, settings, issue="with_tax gives too little", **task)
    assert run.result.outcome == "verified", run.result.summary
    await replayed(run.result.run_id, settings)


async def test_a_sandbox_that_is_lost_ends_the_run_and_replays(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*arguments: Any) -> Any:
        raise SandboxLost("the container went away", hint="look at the engine")

    monkeypatch.setattr(service, "live_ports", lost)
    settings = configure()
    run = await fix(shop, settings)
    assert run.result.exit_code == ExitCode.ENVIRONMENT
    assert run.result.hint == "look at the engine"
    await replayed(run.result.run_id, settings)


@pytest.mark.parametrize("limit", [None, 30.0])
async def test_a_defect_closes_the_record_and_is_raised_even_a_timeout_that_is_not_ours(
    limit: float | None,
    shop: Path,
    configure: Callable[..., Any],
    fix: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*arguments: Any) -> None:
        raise TimeoutError("a socket")

    monkeypatch.setattr(service, "execute", broken)
    settings = configure(**({} if limit is None else {"limits__time_limit_s": limit}), sandbox__pool=0)
    with pytest.raises(TimeoutError, match="a socket"):
        await fix(shop, settings)
    record = RunStore(settings.data_home).open("last")
    assert record.manifest["outcome"] == "defect"
    assert record.manifest["exit_code"] == 70
    assert list(record.events())[-1].type == "run_finished"
    with pytest.raises(RecordError, match="defect"):
        await replay_run("last", settings, lambda event: None)


@pytest.mark.docker
async def test_secrets_are_used_in_the_run_and_kept_out_of_its_record_which_replays(
    tmp_path: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    secret = "ghp_" + "a1B2" * 9
    said = SHOP["tests/test_money.py"].replace("== 120", f"== 121, 'token {secret}'")
    shop = make_repository(tmp_path / "secret", SHOP | {"tests/test_money.py": said})
    setup = ("test https://u:hunter2secret@h.invalid/s = https://u:hunter2secret@h.invalid/s",)
    with ScriptedModel(script(coder=[ONCE])) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(shop, settings, issue=f"{ISSUE} {secret}", setup=setup)
        prompts = str(server.requests)
    assert run.result.outcome == "verified", run.result.summary
    assert secret not in prompts
    for path in run.result.run_dir.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert secret.encode() not in data, path
        assert b"hunter2secret" not in data, path
    assert run.of_type("episode_stored")
    await replayed(run.result.run_id, settings)


@pytest.mark.docker
async def test_an_episode_that_could_not_be_kept_is_not_said_to_be(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(script(coder=[ONCE])) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        settings.data_home.mkdir()
        (settings.data_home / "memory").write_bytes(b"a file")
        run = await fix(shop, settings)
    assert run.result.outcome == "verified", run.result.summary
    assert not run.of_type("episode_stored")
    assert any("memory (episodes) is not used" in event.text for event in run.of_type("notice"))
    await replayed(run.result.run_id, settings)


@pytest.mark.docker
@pytest.mark.parametrize("target", [(), ("tests/test_money.py::test_tax",)])
async def test_a_suite_that_lacks_a_module_says_how_to_install_it(
    tmp_path: Path, configure: Callable[..., Any], fix: Callable[..., Any], target: tuple[str, ...]
) -> None:
    lacking = "import not_there_pkg.sub\n" + SHOP["tests/test_money.py"]
    shop = make_repository(tmp_path / "lacking", SHOP | {"tests/test_money.py": lacking})
    run = await fix(shop, configure(memory__enabled=False), issue="something is odd", target_tests=target)
    assert run.result.exit_code == ExitCode.NO_VERIFIED_PATCH
    assert "not_there_pkg" in run.result.summary
    assert "--setup 'pip install not_there_pkg'" in run.result.hint
    await replayed(run.result.run_id, configure())
