"""The run directory: written so that a kill at any instant leaves something readable."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.core.errors import RecordError
from agentforge.core.events import EVENT_ADAPTER, Notice
from agentforge.core.redact import Redactor
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.record import Tape, TapePlayer
from agentforge.orchestrator.service import scratch_folder
from agentforge.orchestrator.store import RunStore, RunWriter, pack_tree, unpack_tree, write_atomically

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunStore(tmp_path).create(NOW)


def line(seq: int) -> bytes:
    return EVENT_ADAPTER.dump_json(Notice(seq=seq, time=NOW, text=f"note {seq}"))


def test_events_come_back_in_order(writer: RunWriter) -> None:
    for seq in (1, 2, 3):
        writer.append_event(line(seq), last=seq == 3)
    assert [event.seq for event in writer.events()] == [1, 2, 3]


def test_a_torn_last_line_is_left_out(writer: RunWriter) -> None:
    writer.append_event(line(1), last=False)
    writer.close()
    path = writer.directory / "events.jsonl"
    path.write_bytes(path.read_bytes() + line(2)[:-5])
    assert [event.seq for event in writer.events()] == [1]


def test_a_run_without_an_ending_is_listed_as_unfinished(writer: RunWriter, tmp_path: Path) -> None:
    writer.write_manifest({"schema": 1, "outcome": None})
    (summary,) = RunStore(tmp_path).list()
    assert summary.outcome == "unfinished"


def test_a_damaged_manifest_is_listed_and_explained(writer: RunWriter, tmp_path: Path) -> None:
    (writer.directory / "run.json").write_text("{half")
    assert RunStore(tmp_path).list()[0].outcome == "damaged"
    with pytest.raises(RecordError, match=r"run\.json cannot be read"):
        _ = RunStore(tmp_path).open("last").manifest


def test_a_record_of_a_newer_version_is_refused(writer: RunWriter) -> None:
    writer.write_manifest({"schema": 99})
    with pytest.raises(RecordError, match="newer version"):
        _ = writer.manifest


def test_a_run_is_found_by_id_prefix_and_last(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    first, second = store.create(NOW), store.create(NOW.replace(year=2027))
    assert store.open("last").run_id == second.run_id
    assert store.open("2026").run_id == first.run_id
    with pytest.raises(RecordError, match="names 2 runs"):
        store.open("202")
    with pytest.raises(RecordError, match="no run"):
        store.open("zzz")


def test_a_failed_atomic_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")

    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_run_directory_is_private(writer: RunWriter) -> None:
    assert writer.directory.stat().st_mode & 0o077 == 0


names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda name: name not in {".", ".."}
)
files = st.builds(TreeFile, st.binary(max_size=50), st.sampled_from(["100644", "100755", "120000"]))


@given(st.dictionaries(st.lists(names, min_size=1, max_size=3).map("/".join), files, max_size=6))
def test_a_kept_tree_comes_back_byte_for_byte(content: dict[str, TreeFile]) -> None:
    tree = Tree(content)
    back = unpack_tree(pack_tree(tree))
    assert back.files == tree.files
    assert back.digest == tree.digest


def test_a_damaged_tree_is_noticed(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    tree = Tree({"a.py": TreeFile(b"a = 1\n")})
    store.keep_tree(tree)
    assert store.load_tree(tree.digest).files == tree.files
    (tmp_path / "trees" / f"{tree.digest}.tar.gz").write_bytes(
        pack_tree(Tree({"a.py": TreeFile(b"a = 2\n")}))
    )
    with pytest.raises(RecordError, match="damaged"):
        store.load_tree(tree.digest)


def test_manifest_is_valid_json_whatever_the_text(writer: RunWriter) -> None:
    writer.write_manifest({"schema": 1, "text": "\u2028 \udcff é"})
    assert json.loads((writer.directory / "run.json").read_text())["text"] == "\u2028 \udcff é"


SECRET = "ghp_" + "a1B2" * 9


def test_no_secret_reaches_the_record(tmp_path: Path) -> None:
    redactor = Redactor(["configured-value"])
    writer = RunStore(tmp_path).create(NOW, redactor)
    writer.write_json("audit.json", {"setup": [f"pip --token {SECRET}"], SECRET: Path("configured-value")})
    Tape(writer.directory / "reports", redactor).keep("tests", "k", {"output": [f"x {SECRET} y"]})
    log = writer.directory / "reports" / "tests-1.log"
    log.write_bytes(b"\xff " + SECRET.encode() + b" configured-value")
    writer.clean_logs()
    writer.close()
    for path in writer.directory.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert SECRET.encode() not in data, path
        assert b"configured-value" not in data, path
    assert log.read_bytes() == b"\xff [redacted] [redacted]"
    assert (writer.directory / "reports").stat().st_mode & 0o777 == 0o700


def test_a_request_is_found_again_though_its_secrets_were_taken_out(tmp_path: Path) -> None:
    live, later = Redactor(["configured-value"]), Redactor()
    tape = Tape(tmp_path, live)
    tape.keep("environment", tape.key(["pip install https://u:configured-value@h/x"]), "answer")
    player = TapePlayer(tmp_path, later)
    assert player.play("environment", player.key(["pip install https://u:[redacted]@h/x"])) == "answer"


@pytest.mark.parametrize("part", ["", "runs", "trees"])
def test_a_data_home_that_cannot_be_written_says_so(tmp_path: Path, part: str) -> None:
    home = tmp_path / "home"
    (home / part).parent.mkdir(parents=True, exist_ok=True)
    (home / part).write_bytes(b"a file")
    if part != "runs":
        with pytest.raises(RecordError, match="cannot write") as caught:
            RunStore(home).keep_tree(Tree({"a": TreeFile(b"x")}))
        assert "AGENTFORGE_DATA_HOME" in caught.value.hint
    if part != "trees":
        with pytest.raises(RecordError, match="cannot write") as caught:
            RunStore(home).create(NOW)
        assert "AGENTFORGE_DATA_HOME" in caught.value.hint
    if not part:
        with pytest.raises(RecordError, match="scratch"), scratch_folder(home):
            pass
    with pytest.raises(RecordError) as caught:
        Tape(tmp_path / "absent", Redactor()).keep("tests", "k", 1)
    assert "AGENTFORGE_DATA_HOME" in caught.value.hint
