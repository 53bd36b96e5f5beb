"""docs/configuration.md names every key with its default, and its example is valid."""

from __future__ import annotations

import re
from pathlib import Path

from agentforge.config.load import explain_settings, load_settings
from agentforge.config.schema import all_keys

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def table() -> dict[str, str]:
    rows = re.findall(r"^\| `([a-zA-Z_.]+)` \| (.+?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len({key for key, _ in rows}) == len(rows)
    return dict(rows)


def test_af32_every_key_is_documented_and_every_documented_key_exists() -> None:
    keys = {re.sub(r"^agents\.\w+\.", "agents.NAME.", key) for key in all_keys()}
    assert table().keys() == keys


def test_the_documented_defaults_are_the_defaults(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    for key, value, _ in explain_settings(load_settings(empty, {}, {})):
        if key in ("data_home", "agents"):
            continue
        shown = "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        assert table()[key] == shown, key


def test_the_example_is_valid(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    file = tmp_path / "config.yaml"
    file.write_text(found.group(1))
    settings = load_settings(file, {}, {}).settings
    assert settings.critic == "off"
    assert settings.agents["debugger"].temperature == 0.3
    assert settings.limits.time_limit_s == 900
