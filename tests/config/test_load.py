"""Layers, origins, and every complaint with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge.config.load import Resolved, explain_settings, load_settings
from agentforge.config.schema import all_keys
from agentforge.core.errors import ConfigError, ExitCode


def load(
    tmp_path: Path, text: str | None = None, env: dict[str, str] | None = None, **flags: object
) -> Resolved:
    file = None
    if text is not None:
        file = tmp_path / "config.yaml"
        file.write_text(text, encoding="utf-8")
    base = {"AGENTFORGE_DATA_HOME": str(tmp_path / "data"), "AGENTFORGE_CONFIG": ""}
    overrides = {key.replace("__", "."): value for key, value in flags.items()}
    return load_settings(file or _empty(tmp_path), overrides, base | (env or {}))


def _empty(tmp_path: Path) -> Path:
    file = tmp_path / "empty.yaml"
    file.write_text("", encoding="utf-8")
    return file


def complaint(tmp_path: Path, text: str | None = None, **kwargs: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, **kwargs)  # type: ignore[arg-type]
    assert caught.value.exit_code is ExitCode.USAGE
    assert "\n" not in caught.value.what
    return caught.value


def test_defaults_need_nothing(tmp_path: Path) -> None:
    resolved = load(tmp_path)
    assert resolved.settings.retries == 3
    assert resolved.origin("retries") == "default"
    assert not resolved.settings.model.configured


def test_later_layers_win_and_each_says_where_it_came_from(tmp_path: Path) -> None:
    text = "retries: 1\ncritic: gate\nmodel:\n  name: from-file\n  temperature: 0.5\n  seed: 7\n"
    env = {"AGENTFORGE_RETRIES": "2", "AGENTFORGE_MODEL__NAME": "from-env"}
    resolved = load(tmp_path, text, env, model__name="from-flag")
    settings = resolved.settings
    assert (settings.retries, settings.critic, settings.model.temperature) == (2, "gate", 0.5)
    assert settings.model.name == "from-flag"
    assert resolved.origin("model.name") == "flag"
    assert resolved.origin("retries") == "AGENTFORGE_RETRIES"
    assert resolved.origin("model.seed") == f"{tmp_path / 'config.yaml'}:6"
    assert resolved.origin("model.timeout_s") == "default"


def test_a_flag_that_was_not_given_changes_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, "retries: 1\n", retries=None).settings.retries == 1


def test_well_known_variables(tmp_path: Path) -> None:
    env = {"OPENAI_API_KEY": "sk-one", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "GITHUB_TOKEN": "ghp-two"}
    settings = load(tmp_path, None, env).settings
    assert settings.model.api_key is not None
    assert settings.model.api_key.get_secret_value() == "sk-one"
    assert settings.model.base_url == "http://127.0.0.1:1/v1"
    assert settings.github_token is not None
    assert settings.model.configured


def test_our_own_variable_beats_the_well_known_one(tmp_path: Path) -> None:
    env = {"OPENAI_BASE_URL": "http://a/v1", "AGENTFORGE_MODEL__BASE_URL": "http://b/v1"}
    assert load(tmp_path, None, env).settings.model.base_url == "http://b/v1"


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    assert not load(tmp_path, None, {"OPENAI_API_KEY": ""}).settings.model.configured


def test_null_in_the_environment_unsets_an_optional_value(tmp_path: Path) -> None:
    assert (
        load(tmp_path, "model: {seed: 3}\n", {"AGENTFORGE_MODEL__SEED": "null"}).settings.model.seed is None
    )


def test_config_variable_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "named.yaml"
    file.write_text("retries: 0\n", encoding="utf-8")
    assert load_settings(None, {}, {"AGENTFORGE_CONFIG": str(file)}).settings.retries == 0


def test_prices_may_have_dots_in_names(tmp_path: Path) -> None:
    text = "model:\n  prices:\n    gpt-4.1: {input: 2, output: 8}\n"
    assert load(tmp_path, text).settings.model.prices["gpt-4.1"].output == 8
    env = {"AGENTFORGE_MODEL__PRICES": '{"a.b": {"input": 1, "output": 2}}'}
    assert load(tmp_path, None, env).settings.model.prices["a.b"].input == 1


def test_agents_by_name(tmp_path: Path) -> None:
    resolved = load(
        tmp_path, "agents:\n  coder: {temperature: 0.7}\n", {"AGENTFORGE_AGENTS__CRITIC__MODEL": "m"}
    )
    assert resolved.settings.agents["coder"].temperature == 0.7
    assert resolved.settings.agents["critic"].model == "m"


@pytest.mark.parametrize("word", ["off", "advisory", "gate"])
def test_yaml_off_is_a_word_where_words_are_expected(tmp_path: Path, word: str) -> None:
    assert load(tmp_path, f"critic: {word}\n").settings.critic == word


def test_a_number_is_text_where_text_is_expected(tmp_path: Path) -> None:
    assert load(tmp_path, "model: {name: 7}\n").settings.model.name == "7"


def test_variables_in_values_are_not_expanded(tmp_path: Path) -> None:
    assert load(tmp_path, "model: {name: '${HOME}'}\n", {"HOME": "/x"}).settings.model.name == "${HOME}"


def test_data_home_is_expanded_and_absolute(tmp_path: Path) -> None:
    home = load(tmp_path, None, {"AGENTFORGE_DATA_HOME": "~/somewhere"}).settings.data_home
    assert home == Path.home() / "somewhere"


def test_malformed_yaml_names_file_line_and_what(tmp_path: Path) -> None:
    error = complaint(tmp_path, "retries: 1\nmodel: name: x\n")
    assert f"{tmp_path / 'config.yaml'}:2:" in error.what
    assert "not valid YAML" in error.what
    assert error.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n", "found a list"),
        ("retries: 1\nretries: 2\n", "set twice (first on line 1)"),
        ("retries: three\n", '`retries` must be a whole number, got "three"'),
        ("retries: yes\n", "`retries` must be a whole number, got true or false"),
        ("retries: -1\n", "`retries` must be greater than or equal to 0, got -1"),
        ("retries:\n", "`retries` must be a whole number, got nothing"),
        ("critic: maybe\n", '`critic` must be one of advisory, gate, off, got "maybe"'),
        ("model: fast\n", "`model` must be a section"),
        ("retries: {a: 1}\n", "`retries` must be a whole number, got a section"),
        ("memory: {enabled: perhaps}\n", "`memory.enabled` must be true or false"),
        ("? [a, b]\n: 1\n", "a key must be plain text"),
        ("model: &m\n  prices: *m\n", "contains itself"),
        ("a: !!python/object/apply:os.system [id]\n", "could not determine a constructor"),
        ("model:\n\tname: x\n", "not valid YAML"),
    ],
)
def test_wrong_values_are_told_in_words(tmp_path: Path, text: str, expected: str) -> None:
    error = complaint(tmp_path, text)
    assert expected in error.what
    assert str(tmp_path / "config.yaml") in error.what


def test_no_object_is_constructed_from_yaml(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    complaint(tmp_path, f"retries: !!python/object/apply:os.mkdir ['{witness}']\n")
    assert not witness.exists()


@pytest.mark.parametrize(
    ("text", "line", "meant"),
    [
        ("retrys: 1\n", 1, "retries"),
        ("model:\n  temprature: 1\n", 2, "model.temperature"),
        ("api_key: x\n", 1, "model.api_key"),
        ("agents:\n  codr: {model: x}\n", 2, "agents.coder"),
        ("limits:\n  max_cost: 1\n", 2, "limits.max_cost_usd"),
    ],
)
def test_unknown_keys_get_a_suggestion_and_a_line(tmp_path: Path, text: str, line: int, meant: str) -> None:
    error = complaint(tmp_path, text)
    assert f"config.yaml:{line}: unknown option" in error.what
    assert error.hint == f"did you mean `{meant}`?"


def test_an_unknown_key_unlike_any_lists_what_is_known(tmp_path: Path) -> None:
    assert "temperature" in complaint(tmp_path, "model: {zzz: 1}\n").hint


def test_environment_complaints_name_the_variable(tmp_path: Path) -> None:
    assert "AGENTFORGE_RETRIES: `retries` must be a whole number" in (
        complaint(tmp_path, env={"AGENTFORGE_RETRIES": "x"}).what
    )
    unknown = complaint(tmp_path, env={"AGENTFORGE_MODEL__NAEM": "x"})
    assert "AGENTFORGE_MODEL__NAEM: unknown option `model.naem`" in unknown.what
    assert "model.name" in unknown.hint
    assert "workflow" in complaint(tmp_path, env={"AGENTFORGE_WORKFLOWS": "x"}).hint


def test_a_foreign_variable_is_reported_and_left_alone(tmp_path: Path) -> None:
    resolved = load(tmp_path, None, {"AGENTFORGE_QQQQ": "1", "AGENTFORGE_DEBUG": "1"})
    assert len(resolved.warnings) == 1
    assert "AGENTFORGE_QQQQ" in resolved.warnings[0]


def test_a_missing_named_file_is_an_error_a_missing_default_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_settings(tmp_path / "none.yaml", {}, {})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_settings(None, {}, {}).settings.retries == 3
    (tmp_path / "agentforge").mkdir()
    (tmp_path / "agentforge" / "config.yaml").write_text("retries: 1\n", encoding="utf-8")
    assert load_settings(None, {}, {}).settings.retries == 1


def test_unreadable_files(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"retries: \xff\xfe\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_settings(binary, {}, {})
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path, {}, {})


def test_nothing_is_read_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("config.yaml", "agentforge.yaml", ".env"):
        (tmp_path / name).write_text("retries: 9\nAGENTFORGE_RETRIES=9\n", encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nowhere"))
    assert load_settings(None, {}, {}).settings.retries == 3


def test_explain_lists_every_key_once_and_masks_secrets(tmp_path: Path) -> None:
    env = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": "https://user:pw@host/v1"}
    rows = list(explain_settings(load(tmp_path, None, env)))
    keys = [key for key, _, _ in rows]
    assert len(keys) == len(set(keys))
    assert {"model.api_key", "limits.max_tokens", "search.batch_size", "data_home"} <= set(keys)
    shown = repr(rows)
    assert "sk-secret" not in shown
    assert "pw@" not in shown
    assert ("model.api_key", "********", "OPENAI_API_KEY") in rows


def test_a_secret_of_the_wrong_type_is_not_shown(tmp_path: Path) -> None:
    assert "sk-oops" not in complaint(tmp_path, "model:\n  api_key: [sk-oops]\n").what


@pytest.mark.parametrize("key", sorted(all_keys()))
def test_af32_every_key_can_be_set_by_environment(tmp_path: Path, key: str) -> None:
    """Each option is reachable by its documented name, and its origin says so."""
    samples = {"workflow": "oneshot", "critic": "gate", "tests_scope": "related",
               "model.edit_format": "symbol",
               "memory.enabled": "false", "memory.learn": "false", "memory.distil": "false",
                   "server.allow_private_hosts": "true",
               "model.prices": '{"m": {"input": 1, "output": 1}}',
               "model.temperature": "1", "data_home": "/tmp/elsewhere"}  # fmt: skip
    value = samples.get(key, "1" if key.endswith(".temperature") else "517")
    name = "AGENTFORGE_" + key.upper().replace(".", "__")
    resolved = load_settings(_empty(tmp_path), {}, {name: value})
    before = {k: v for k, v, _ in explain_settings(load_settings(_empty(tmp_path), {}, {}))}
    changed = {k for k, v, _ in explain_settings(resolved) if before.get(k) != v}
    assert changed, f"{name} changed nothing"
    assert all(changed_key.startswith(key) for changed_key in changed)
    assert resolved.origin(key) == name
