"""audit.json of real runs: every line owned, every invariant verified anew, every forgery seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentforge.cli.main import run as command
from agentforge.orchestrator.responsibility.check import check, read_stored
from agentforge.orchestrator.store import RunStore
from tests.orchestrator.test_five_agents import script
from tests.support.model_server import ScriptedModel

pytestmark = pytest.mark.docker


@pytest.fixture
async def finished(shop: Any, configure: Callable[..., Any], fix: Callable[..., Any]) -> Any:
    with ScriptedModel(script()) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(shop, settings)
    assert run.result.outcome == "verified", run.result.summary
    return run, settings


def broken(run: Any, settings: Any) -> list[str]:
    store = RunStore(settings.data_home)
    return [f.name for f in check(read_stored(store.open(run.result.run_id), store)) if not f.holds]


async def test_a_run_of_agents_is_audited_step_by_step(
    finished: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, settings = finished
    audit = json.loads((run.result.run_dir / "audit.json").read_text())
    assert audit["source"] == "plan"
    assert [row["id"] for row in audit["responsibilities"]] == ["S0", "S1"]
    (hunk,) = audit["hunks"]
    assert (hunk["file"], hunk["unit"], hunk["responsibility"]) == (
        "shop/money.py",
        "shop/money.py::split",
        "S1",
    )
    assert hunk["why"] == "hand out the remainder of split"
    assert [(step["by"], step["verdict"], step["decision"]) for step in hunk["history"]] == [
        ("coder", "refused", "superseded"),
        ("debugger", "verified", "result"),
    ]
    assert [entry["kind"] for entry in hunk["evidence"]] == ["fail to pass", "pass to pass"]
    assert broken(run, settings) == []
    monkeypatch.setenv("AGENTFORGE_DATA_HOME", str(settings.data_home))
    assert command(["audit", "last", "--file", "shop/money.py", "--line", str(hunk["lines"]["new"][0])]) == 0
    said = capsys.readouterr().out
    assert "responsibility  S1" in said
    assert "fail to pass" in said
    assert command(["audit", "last", "--file", "shop/money.py", "--line", "1"]) == 1
    assert command(["audit", "last", "--line", "1"]) == 2
    capsys.readouterr()
    assert command(["audit", "last", "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["holds"] is True


FORGERIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "ids before code": lambda audit: audit["responsibilities"][1].update(id="S9"),
    "every line in one hunk": lambda audit: audit["hunks"].pop(),
    "every hunk has one owner": lambda audit: audit["hunks"][0].update(responsibility="S0"),
    "evidence as announced": lambda audit: audit["result"]["decision"].update(fail_to_pass=["made::up"]),
    "history only grows": lambda audit: audit["transactions"].append({}),
}


async def test_a_forged_record_is_seen(finished: Any) -> None:
    run, settings = finished
    path = run.result.run_dir / "audit.json"
    honest = path.read_text()
    for name, forge in FORGERIES.items():
        audit = json.loads(honest)
        forge(audit)
        path.write_text(json.dumps(audit))
        assert name in broken(run, settings)
    path.write_text(honest)
    patch = run.result.run_dir / "patch.diff"
    patch.write_bytes(patch.read_bytes().replace(b"+    left", b"+    rest"))
    assert "every line in one hunk" in broken(run, settings)
