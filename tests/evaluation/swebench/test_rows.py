"""Rows, what is sealed in them, and predictions: no engine needed."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.errors import AgentForgeError, ConfigError, EnvironmentFault
from agentforge.evaluation.swebench.dataset import load_dataset, require_gradable
from agentforge.evaluation.swebench.instance import task_of
from agentforge.evaluation.swebench.predictions import model_label, read_predictions, submission
from agentforge.evaluation.swebench.rows import ADDED, CLASSIC, Instance, read_row
from tests.evaluation.swebench.instances import ISSUE, SECRET, make_project, row, write_rows

CRLF_AND_BLANK = b"""diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,3 @@
-one\r
+two\r
 three
\x20
"""
OF_A_TEST = b"""diff --git a/tests/test_a.py b/tests/test_a.py
new file mode 100644
index 0..2
--- /dev/null
+++ b/tests/test_a.py
@@ -0,0 +1 @@
+diff --git a/src/b.py b/src/b.py
"""
NEW = b"""diff --git a/src/new file.py b/src/new file.py
new file mode 100644
index 0..2
--- /dev/null
+++ b/src/new file.py\t
@@ -0,0 +1 @@
+x = 1
"""


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    return row(make_project(tmp_path / "shapes"), 1, "some/image:latest")


def test_af33_the_gold_patch_is_unreachable_from_what_the_agent_is_given(record: dict[str, Any]) -> None:
    read = read_row(record, "here")
    task = task_of(read.instance, "/nowhere/base.git", "some/image:latest", hints=True)
    told = task.model_dump_json() + read.instance.model_dump_json() + repr(read.instance) + repr(read.sealed)
    for secret in (SECRET, "width * height", "eval_script", "EOF_114329324912", "test_area"):
        assert secret not in told, secret
    assert ISSUE in task.issue.text
    assert not set(Instance.model_fields) & {
        "patch",
        "test_patch",
        "FAIL_TO_PASS",
        "PASS_TO_PASS",
        "eval_script",
    }
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            way(read.sealed)
    with pytest.raises(TypeError):
        json.dumps(read.sealed)
    with pytest.raises(TypeError):
        vars(read.sealed)
    assert not [name for name in dir(read.sealed) if not name.startswith("_") and name != "for_the_harness"]
    assert read.sealed.for_the_harness("other")["image"] == "other"


def test_hints_are_given_only_when_asked_for(record: dict[str, Any]) -> None:
    instance = read_row(record, "here").instance
    assert "operator" not in task_of(instance, "x", "y").issue.text
    assert "operator" in task_of(instance, "x", "y", hints=True).issue.text
    assert task_of(instance, "x", "y").issue.title == "rectangle gives a wrong area"


@pytest.mark.parametrize("value", ['["a::b", "c"]', ["a::b", "c"]])
def test_af37_tests_may_be_a_list_or_json_text(record: dict[str, Any], value: object) -> None:
    read = read_row({**record, "FAIL_TO_PASS": value}, "here")
    assert read.sealed.for_the_harness("x")["FAIL_TO_PASS"] == ["a::b", "c"]
    for bad in ("a::b", 7, [1]):
        with pytest.raises(ConfigError, match="FAIL_TO_PASS"):
            read_row({**record, "FAIL_TO_PASS": bad}, "here")


def test_classic_rows_are_explained_or_completed(record: dict[str, Any], tmp_path: Path) -> None:
    classic = {name: record[name] for name in CLASSIC}
    path = write_rows(tmp_path / "classic.jsonl", [classic])
    dataset = load_dataset(str(path))
    assert dataset.rows[0].instance.image == "swebench/sweb.eval.x86_64.demo_1776_shapes-1:latest"
    with pytest.raises(ConfigError) as refused:
        require_gradable(dataset.rows, "classic.jsonl")
    assert all(name in refused.value.what for name in ADDED)
    assert "--complete-from" in refused.value.hint
    whole = write_rows(tmp_path / "whole.jsonl", [record])
    completed = load_dataset(str(path), complete_from=str(whole))
    require_gradable(completed.rows, "classic.jsonl")
    assert completed.digest == load_dataset(str(whole)).digest != dataset.digest


def test_the_digest_is_of_the_content_in_every_format(record: dict[str, Any], tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    records = [record, {**record, "instance_id": "demo__shapes-2"}]
    places = [write_rows(tmp_path / "a.jsonl", records), write_rows(tmp_path / "b.jsonl", records[::-1])]
    places += [tmp_path / "c.json", tmp_path / "d.parquet"]
    places[2].write_text(json.dumps(records))
    write_table(pyarrow.Table.from_pylist(records), places[3])
    assert len({load_dataset(str(place)).digest for place in places}) == 1
    assert load_dataset(str(places[1])).rows[0].instance.instance_id == "demo__shapes-2"


def test_bad_files_are_one_clear_error(record: dict[str, Any], tmp_path: Path) -> None:
    def fails(name: str, data: bytes, *words: str) -> None:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(AgentForgeError) as refused:
            load_dataset(str(tmp_path / name))
        assert all(word in str(refused.value) for word in words), refused.value

    line = json.dumps(record).encode()
    fails("a.jsonl", line + b"\n{torn", "line 2")
    fails("b.jsonl", line + b"\n" + line, "demo__shapes-1 twice")
    fails("c.jsonl", b"", "holds no row")
    fails("d.jsonl", b'{"instance_id": "x"}', "repo", "base_commit")
    fails("h.jsonl", b"[1]\n", "row 1", "not an object")
    for name, value in (("repo", "a/b/../../../private"), ("repo", "/etc"), ("base_commit", "--output=x")):
        fails("i.json", json.dumps([{**record, name: value}]).encode(), value)
    fails("e.jsonl", json.dumps({**record, "instance_id": "../../x"}).encode(), "no instance id")
    fails("f.json", b"7", "no list")
    fails("g.parquet", b"PAR1", "Parquet")
    fails("h.csv", b"a,b", ".jsonl")
    fails("i.jsonl", b"\xff", "UTF-8")


def test_the_hub_out_of_reach_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    import huggingface_hub.constants as hub

    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    with pytest.raises(EnvironmentFault, match=r"SWE-bench/SWE-bench_Lite \(dev\) cannot be fetched"):
        load_dataset("lite", "dev")


def test_af34_a_patch_is_never_stripped() -> None:
    given = submission(CRLF_AND_BLANK)
    assert given.text.encode() == CRLF_AND_BLANK
    assert given.text.endswith("\n \n")
    assert submission(None).text == submission(b"").text == ""
    assert "not UTF-8" in submission(CRLF_AND_BLANK.replace(b"two", b"\xff")).unfit


def test_af35_the_final_patch_with_new_files_and_without_edits_to_tests() -> None:
    given = submission(CRLF_AND_BLANK + OF_A_TEST + NEW)
    assert given.text.encode() == CRLF_AND_BLANK + NEW
    assert given.dropped == ("tests/test_a.py",)
    kept = submission(CRLF_AND_BLANK + OF_A_TEST + NEW, keep_test_edits=True)
    assert kept.text.encode() == CRLF_AND_BLANK + OF_A_TEST + NEW
    assert not kept.dropped
    assert submission(OF_A_TEST).text == ""


def test_predictions_are_read_whole_or_refused(tmp_path: Path) -> None:
    place = tmp_path / "p.json"

    def fails(value: object, words: str) -> None:
        place.write_text(json.dumps(value))
        with pytest.raises(ConfigError, match=words):
            read_predictions(place)

    one = {"instance_id": "a", "model_name_or_path": "m/n", "model_patch": None}
    fails([{"instance_id": "a"}], "no model_patch")
    fails([one, one], "two predictions")
    fails([one, {**one, "instance_id": "b", "model_name_or_path": "k"}], "several models")
    fails([{}], "no instance_id")
    fails([{**one, "model_patch": {"diff": "x"}}], "model_patch of a is not text")
    place.write_text(json.dumps([{**one, "model_name_or_path": ".."}]))
    assert read_predictions(place)["a"].model_name_or_path == "unnamed", "it names a folder"
    fails(7, "no predictions")
    place.write_text(json.dumps({"a": one}))
    read = read_predictions(place)["a"]
    assert (read.model_patch, read.model_name_or_path) == ("", "m_n")
    assert model_label("search", "") == "agentforge+search"
    assert "/" not in model_label("agentforge", "org/model:7b")
