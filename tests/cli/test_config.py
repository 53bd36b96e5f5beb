"""`agentforge config show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Ended

Cli = Callable[..., Ended]


def test_show_names_each_origin(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("retries: 1\nmodel:\n  name: local\n", encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    ended = cli("config", "show", "--json", "--config", str(file))
    document = json.loads(ended.out)
    assert ended.code == 0
    assert document["retries"] == {"value": 1, "origin": f"{file}:1"}
    assert document["model.name"] == {"value": "local", "origin": f"{file}:3"}
    assert document["model.api_key"] == {"value": "********", "origin": "OPENAI_API_KEY"}
    assert document["critic"]["origin"] == "default"
    assert "sk-secret" not in ended.out + ended.err


def test_show_as_a_table(cli: Cli) -> None:
    lines = cli("config", "show").out.splitlines()
    assert lines[0].split() == ["KEY", "VALUE", "FROM"]
    assert any(line.split() == ["retries", "3", "default"] for line in lines)


def test_malformed_configuration_is_one_line(process: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("model: [\n", encoding="utf-8")
    process("config", "show", "--config", "bad.yaml").assert_one_clear_line(2, "bad.yaml:", "not valid YAML")


def test_a_missing_file_is_one_line(process: Cli) -> None:
    process("config", "show", "--config", "none.yaml").assert_one_clear_line(2, "none.yaml", "does not exist")


def test_a_foreign_variable_is_a_warning(process: Cli) -> None:
    ended = process("config", "show", "--json", env={"AGENTFORGE_QQQQ": "1"})
    assert ended.code == 0
    assert ended.err.startswith("warning: environment variable AGENTFORGE_QQQQ")
    json.loads(ended.out)
