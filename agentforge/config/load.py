"""Layers of the configuration. Later wins: defaults, file, environment, flags.

Nothing is ever read from the repository under repair, and `${NAME}` in a value stays as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs
import yaml
from pydantic import BaseModel, SecretStr, ValidationError

from agentforge.config.schema import (
    KeyPath,
    child,
    in_words,
    is_section,
    is_text,
    keys_of,
    near_miss,
    strip_optional,
    type_at,
)
from agentforge.config.settings import Settings
from agentforge.config.yamlfile import Mark, Scalar, read_yaml
from agentforge.core.errors import ConfigError

PREFIX = "AGENTFORGE_"
CONFIG_VARIABLE = "AGENTFORGE_CONFIG"
DEBUG_VARIABLE = "AGENTFORGE_DEBUG"
WELL_KNOWN: Mapping[str, KeyPath] = {
    "OPENAI_API_KEY": ("model", "api_key"),
    "OPENAI_BASE_URL": ("model", "base_url"),
    "GITHUB_TOKEN": ("github_token",),
}


class Given(NamedTuple):
    """One value that somebody set, and where."""

    path: KeyPath
    value: Any
    origin: str


@dataclass(frozen=True)
class Resolved:
    """The settings, where each set key came from (dotted key -> origin), and what was ignored.

    A key that is not in `origins` has its default.
    """

    settings: Settings
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    def origin(self, key: str) -> str:
        """Where `key`, or the section around it, was set."""
        parts = key.split(".")
        for end in range(len(parts), 0, -1):
            found = self.origins.get(".".join(parts[:end]))
            if found:
                return found
        return "default"


def default_config_file() -> Path:
    """Where the user's own configuration lies when no other is named."""
    return Path(platformdirs.user_config_dir("agentforge")) / "config.yaml"


def load_settings(
    config_file: Path | None, overrides: Mapping[str, object], env: Mapping[str, str]
) -> Resolved:
    """Resolve all layers. `overrides` are flags by dotted key; a value of None means "not given".

    `config_file` None means `AGENTFORGE_CONFIG` or the user's file, which may be missing.
    Raises `ConfigError` naming the place (file and line, variable or flag) and what is wrong there.
    """
    warnings: list[str] = []
    layers = [*_file_layer(config_file, env), *_environment_layer(env, warnings), *_flag_layer(overrides)]
    tree: dict[str, Any] = {}
    origins: dict[KeyPath, str] = {}
    for given in layers:
        _set(tree, given.path, given.value)
        origins[given.path] = given.origin
    settings = _validate(tree, origins)
    home = Path(settings.data_home).expanduser().absolute()
    settings = settings.model_copy(update={"data_home": home})
    return Resolved(settings, {".".join(path): origin for path, origin in origins.items()}, tuple(warnings))


def explain_settings(resolved: Resolved) -> Iterator[tuple[str, Any, str]]:
    """(dotted key, value with secrets masked, origin) of every key, in the order of the schema."""
    for key, value in _leaves(resolved.settings, ""):
        yield key, value, resolved.origin(key)


# --- layers -----------------------------------------------------------------------------------------------


def _file_layer(config_file: Path | None, env: Mapping[str, str]) -> Iterator[Given]:
    named = config_file or (Path(env[CONFIG_VARIABLE]) if env.get(CONFIG_VARIABLE) else None)
    path = named or default_config_file()
    if named is None and not path.is_file():
        return
    yield from _from_mark(read_yaml(path), path, (), Settings)


def _from_mark(mark: Mark, path: Path, above: KeyPath, annotation: Any) -> Iterator[Given]:
    for key, (line, entry) in mark.entries.items():
        here = (*above, key)
        below = child(annotation, key)
        if below is None:
            raise _unknown(here, annotation, f"{path}:{line}")
        if isinstance(entry, Mark):
            if not is_section(below):
                raise _wrong(here, below, "a section", f"{path}:{line}")
            yield from _from_mark(entry, path, here, below)
        elif is_section(below) and entry.value is None:
            continue  # an empty section, its keys commented out
        else:
            yield Given(here, _scalar_value(entry, below), f"{path}:{entry.line}")


def _scalar_value(entry: Scalar, annotation: Any) -> Any:
    """YAML reads `critic: off` as false; where text is expected, what was written counts."""
    if is_text(annotation) and entry.raw and entry.value is not None:
        return entry.raw
    return entry.value


def _environment_layer(env: Mapping[str, str], warnings: list[str]) -> Iterator[Given]:
    for name, path in WELL_KNOWN.items():
        if env.get(name):
            yield Given(path, env[name], name)
    for name in sorted(env):
        if name.startswith(PREFIX) and name not in (CONFIG_VARIABLE, DEBUG_VARIABLE) and env[name]:
            given = _from_variable(name, env[name], warnings)
            if given is not None:
                yield given


def _from_variable(name: str, text: str, warnings: list[str]) -> Given | None:
    path = tuple(name.removeprefix(PREFIX).lower().split("__"))
    annotation = type_at(path)
    if annotation is not None:
        return Given(path, _environment_value(name, text, annotation), name)
    known = next(end for end in range(len(path), -1, -1) if type_at(path[:end]) is not None or end == 0)
    around = type_at(path[:known]) if known else Settings
    meant = near_miss(path[: known + 1], around)
    if known or meant:
        raise _unknown(path[: known + 1], around, name)
    warnings.append(f"environment variable {name} is not an option of agentforge and was ignored")
    return None


def _environment_value(name: str, text: str, annotation: Any) -> Any:
    _, optional = strip_optional(annotation)
    if optional and text.lower() in ("null", "none"):
        return None
    if not is_section(annotation):
        return text
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    if not isinstance(value, dict):
        raise ConfigError(f'{name}: expected JSON like {{"name": …}}, got {_shown(text)}')
    return value


def _flag_layer(overrides: Mapping[str, object]) -> Iterator[Given]:
    for key, value in overrides.items():
        path = tuple(key.split("."))
        if type_at(path) is None:
            raise _unknown(path, Settings, "flag")
        if value is not None:
            yield Given(path, value, "flag")


# --- merging and checking ---------------------------------------------------------------------------------


def _set(tree: dict[str, Any], path: KeyPath, value: Any) -> None:
    for part in path[:-1]:
        below = tree.get(part)
        if not isinstance(below, dict):
            below = tree[part] = {}
        tree = below
    tree[path[-1]] = value


def _validate(tree: dict[str, Any], origins: Mapping[KeyPath, str]) -> Settings:
    for path, origin in origins.items():
        value, annotation = _get(tree, path), type_at(path)
        if isinstance(value, bool) and strip_optional(annotation)[0] in (int, float):
            raise _wrong(path, annotation, "true or false", origin)
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise _from_validation(error, origins) from None


def _from_validation(error: ValidationError, origins: Mapping[KeyPath, str]) -> ConfigError:
    first = error.errors(include_url=False)[0]
    path = tuple(str(part) for part in first["loc"] if part != "[key]")
    origin = next((origins[path[:end]] for end in range(len(path), 0, -1) if path[:end] in origins), "")
    annotation = type_at(path)
    if first["type"] == "extra_forbidden" or annotation is None:
        return _unknown(path, type_at(path[:-1]) or Settings, origin)
    if first["type"] in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        bound = first["msg"].removeprefix("Input should be ")
        secretless = _shown(first["input"])
        return ConfigError(f"{_place(origin)}`{'.'.join(path)}` must be {bound}, got {secretless}")
    return _wrong(path, annotation, _shown(first["input"]), origin)


def _unknown(path: KeyPath, annotation: Any, origin: str) -> ConfigError:
    meant = near_miss(path, annotation)
    known = ", ".join(keys_of(annotation))
    hint = f"did you mean `{meant}`?" if meant else f"known here: {known}"
    return ConfigError(f"{_place(origin)}unknown option `{'.'.join(path)}`", hint=hint)


def _wrong(path: KeyPath, annotation: Any, got: str, origin: str) -> ConfigError:
    if strip_optional(annotation)[0] is SecretStr:
        got = "something else (not shown)"
    return ConfigError(f"{_place(origin)}`{'.'.join(path)}` must be {in_words(annotation)}, got {got}")


def _place(origin: str) -> str:
    return f"{origin}: " if origin else ""


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 60 else text[:57] + "…"


def _get(tree: Any, path: KeyPath) -> Any:
    for part in path:
        if not isinstance(tree, dict) or part not in tree:
            return None
        tree = tree[part]
    return tree


# --- showing ----------------------------------------------------------------------------------------------


def _leaves(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        pairs = [(name, getattr(value, name)) for name in type(value).model_fields]
    elif isinstance(value, Mapping) and value:
        pairs = list(value.items())
    else:
        yield prefix, _masked(value)
        return
    for name, below in pairs:
        yield from _leaves(below, f"{prefix}.{name}" if prefix else name)


def _masked(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return "********"
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str) and "://" in value and "@" in value:
        scheme, rest = value.split("://", 1)
        return f"{scheme}://********@{rest.rsplit('@', 1)[1]}"
    return value
