"""Records that were torn, edited or filled with garbage: one clear error, and nothing in them is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentforge import __version__
from agentforge.config.settings import Settings
from agentforge.core.errors import ExitCode, RecordError
from agentforge.core.ports import EnvironmentSpec
from agentforge.core.redact import Redactor
from agentforge.core.task import Limits
from agentforge.core.tree import Tree, TreeFile
from agentforge.models.record import load_calls
from agentforge.models.resume import unanswered
from agentforge.orchestrator.clock import read_journal
from agentforge.orchestrator.past import past_of
from agentforge.orchestrator.record import ReplaySandbox, Tape, TapePlayer
from agentforge.orchestrator.replay import replay_run
from agentforge.orchestrator.resume import resume_run
from agentforge.orchestrator.retention import remove_runs
from agentforge.orchestrator.store import RunRecord, RunStore
from tests.models.helpers import ask
from tests.models.test_record import recorder
from tests.orchestrator.conftest import Fix
from tests.orchestrator.test_resume import answer
from tests.support.model_server import Reply, ScriptedModel

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def content(directory: Path) -> dict[str, bytes]:
    """Every file of the record but for logs that only grow."""
    kept = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in kept}


def restore(sound: Path, directory: Path) -> None:
    shutil.rmtree(directory)
    shutil.copytree(sound, directory)


def damage_events(directory: Path) -> None:
    path = directory / "events.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"\0\0\0", *lines[2:]]))


def double_an_event(directory: Path) -> None:
    path = directory / "events.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], lines[0], *lines[1:]]))


def change_an_event(directory: Path) -> None:
    path = directory / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"node":"plan"', b'"node":"plam"', 1))


def damage_a_tape(directory: Path) -> None:
    path = next((directory / "reports").glob("*-tests.json"))
    edit(path, answer={"outcomes": 5})


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (damage_events, r"events\.jsonl of run .* cannot be read"),
    (double_an_event, "event 1 comes after event 1"),
    (change_an_event, "cannot be resumed: event"),
    (damage_a_tape, "a recorded test report cannot be read"),
    (lambda d: next((d / "reports").glob("*-tests.json")).write_text("[]"), "of the record cannot be read"),
    (lambda d: (d / "clock.log").write_text("monotonic nan\n"), "is damaged at"),
    (lambda d: (d / "clock.log").write_text("soon 5\n"), "is damaged at"),
    (lambda d: edit(d / "run.json", outcome=["limit"]), "cannot be read"),
    (lambda d: edit(d / "run.json", resumes=[5]), "cannot be read"),
    (lambda d: edit(d / "run.json", resumes=[{"after": "x", "at": 2}]), "cannot be read"),
    (lambda d: edit(d / "run.json", base=[]), "cannot be read"),
    (lambda d: edit(d / "run.json", workflow={"graph": 1}), "cannot be read"),
    (lambda d: edit(d / "run.json", settings=None), "cannot be read"),
]


@pytest.mark.docker
async def test_a_refused_resumption_says_why_and_leaves_the_record_as_it_was(
    shop: Path, configure: Callable[..., Settings], fix: Fix
) -> None:
    """A record of real work, damaged in every way; then the sound one is stopped by limits and goes on."""
    with ScriptedModel(answer) as model:
        settings = configure(
            model__base_url=model.base_url, model__name="scripted", model__api_key="sk-test",
            limits__max_calls=3,
        )  # fmt: skip
        first = await fix(shop, settings)
        assert first.result.exit_code == ExitCode.LIMIT
        directory, sound = first.result.run_dir, shop.parent / "sound"
        shutil.copytree(directory, sound)
        for damage, said in DAMAGES:
            restore(sound, directory)
            damage(directory)
            before = content(directory)
            with pytest.raises(RecordError, match=said):
                await resume_run("last", settings, listener=lambda event: None)
            assert content(directory) == before, said
        restore(sound, directory)
        asked = len(model.requests)
        # Its past is gone through whatever the time limit is, and then the limit holds.
        late = await resume_run(
            "last", settings, listener=lambda event: None, limits=Limits(time_limit_s=1e-6)
        )
        assert (late.outcome, len(model.requests)) == ("limit", asked)
        assert RunRecord(directory).manifest["cut"]["kind"] == "time"
        # A call that a limit had refused is made once the limit is higher.
        result = await resume_run("last", settings, listener=lambda event: None, limits=Limits())
        assert result.outcome == "verified"
        assert len(model.requests) == asked + 2
        replayed = await replay_run("last", settings, lambda event: None)
        assert replayed.replay_matches, replayed.difference
        for change in ({"base": 1}, {"clock": {"now": [1], "monotonic": []}}, {"models": 5}, {"task": []}):
            edited = directory / "run.json"
            kept = edited.read_text()
            edit(edited, **change)
            with pytest.raises(RecordError, match="cannot be read"):
                await replay_run("last", settings, lambda event: None)
            edited.write_text(kept)


def test_an_ending_that_run_json_does_not_know_of_is_no_part_of_the_course(tmp_path: Path) -> None:
    writer = RunStore(tmp_path).create(NOW)
    writer.write_manifest({"outcome": None, "versions": {"agentforge": __version__}, "summary": "old"})
    (writer.directory / "clock.log").write_text("now 2030-01-01T00:00:00+00:00\n")
    for line in (b'{"seq":1,"type":"run_started"}', b'{"seq":2,"type":"run_finished"}'):
        writer.append_event(line, last=False)
    past = past_of(RunRecord(writer.directory))
    writer.close()
    assert past.prefix.lines == (b'{"seq":1,"type":"run_started"}',)
    assert past.prefix.jumps == {1: 3}
    assert "summary" not in past.manifest


async def test_a_recorded_call_that_lacks_only_its_newline_is_not_paid_again(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with ScriptedModel([Reply("done")]) as server:
        await recorder(server, path).complete(ask())
        path.write_bytes(path.read_bytes().rstrip(b"\n"))
        assert unanswered(path, [1], ended_by_error=False) == {}
        recorder(server, path)
    assert [record.call for record in load_calls(path)] == [1]
    assert path.read_bytes().endswith(b"\n")


async def test_a_tape_keeps_its_order_beyond_ten_thousand_answers(tmp_path: Path) -> None:
    (tmp_path / "9999-tests.json").write_text(json.dumps({"kind": "tests", "key": "k", "answer": 1}))
    for number in (2, 3):
        Tape(tmp_path, Redactor()).keep("tests", "k", number)
    player = TapePlayer(tmp_path, Redactor())
    assert [player.play("tests", "k") for _ in range(3)] == [1, 2, 3]
    tree, spec = Tree({"a.py": TreeFile(b"")}), EnvironmentSpec()
    with pytest.raises(RecordError, match="never made"):
        await ReplaySandbox(player).prepare(tree, spec)


@pytest.mark.parametrize("place", [0, 40, 100, 200])
def test_a_base_tree_whose_content_changed_is_damaged_and_says_so(tmp_path: Path, place: int) -> None:
    store = RunStore(tmp_path)
    tree = Tree({f"m{number}.py": TreeFile(b"x = %d\n" % number) for number in range(20)})
    store.keep_tree(tree)
    path = store.trees / f"{tree.digest}.tar.gz"
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(RecordError, match="damaged"):
        store.load_tree(tree.digest)


def test_a_run_that_is_worked_on_is_never_removed_whatever_its_age(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    resumed, over = store.create(datetime(2020, 1, 1, tzinfo=UTC)), store.create(NOW)
    over.close()
    assert remove_runs(store, [resumed.run_id, over.run_id]) == [over.run_id]
    assert resumed.directory.is_dir()
    resumed.close()


def test_a_torn_journal_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "clock.log"
    path.write_text("now 2030-01-01T00:00:00+00:00\nmonotonic 0.5\nmonoto")
    assert read_journal(path).monotonics == (0.5,)
