"""`agentforge localize`, as a user has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.orchestrator.conftest import SHOP, make_repository

from .conftest import Ended

Cli = Callable[..., Ended]
TEST = "tests/test_money.py"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    rest = "\n\ndef test_rest():\n    assert split(10, 3) == [4, 3, 3]\n"
    return make_repository(tmp_path / "shop", SHOP | {TEST: SHOP[TEST] + rest})


def test_bad_input_is_one_clear_line(cli: Cli, tmp_path: Path) -> None:
    cli("localize", "--repo", "/nonexistent").assert_one_clear_line(3, "/nonexistent", "hint:")
    cli("localize", "-k", "0").assert_one_clear_line(2, "'-k'")
    cli("localize", "--test-id", " ").assert_one_clear_line(2, "--test-id is empty", "hint:")
    cli("localize", "--issue", "@/nonexistent").assert_one_clear_line(2, "/nonexistent")
    helped = cli("localize", "--help")
    assert helped.code == 0
    assert "Example: agentforge localize" in helped.out


@pytest.mark.docker
def test_lines_scores_reasons_and_values_and_the_run_is_replayed(cli: Cli, shop: Path) -> None:
    place = ("--repo", str(shop), "--no-stream", "--no-memory")
    shown = cli("localize", *place, "-k", "2")
    assert shown.code == 0, shown.err
    head, first, second = shown.out.splitlines()[:3]
    assert head.split()[2:6] == ["SCORE", "OCHIAI", "TARANTULA", "DSTAR"]
    assert first.split()[1] in ("shop/money.py:9", "shop/money.py:11", "shop/money.py:12")
    assert second.startswith("2 ")
    assert "  1. run by 1 failing and 1 passing tests" in shown.out
    assert f"{TEST}::test_rest ends with AssertionError" in shown.out
    assert "split(cents=10, people=3) returned [3, 3, 3]; at its end share=3" in shown.out
    assert cli("runs", "replay", "last", "--no-stream").code == 0
    found = cli("localize", *place, "--json", "--tests", "related", "--test-id", f"{TEST}::test_rest")
    document = json.loads(found.out)
    assert (document["outcome"], document["exit_code"]) == ("localized", 0)
    assert document["targets"] == [f"{TEST}::test_rest"]
    assert document["suspects"][0]["path"] == "shop/money.py"
    assert document["failures"][0]["calls"][0]["returned"] == "[3, 3, 3]"


@pytest.mark.docker
def test_without_a_failing_test_it_says_so(cli: Cli, tmp_path: Path) -> None:
    ended = cli("localize", "--repo", str(make_repository(tmp_path / "green", SHOP)), "--no-stream")
    assert ended.code == 1
    assert ended.out == ""
    assert "nothing to suspect: no failing test shows the bug" in ended.err
    assert "--test-id" in ended.err
