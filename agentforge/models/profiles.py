"""What is known of models by their name: the edit format to start with."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any, Literal, cast

import yaml

from agentforge.config.settings import EditFormat

StartingFormat = Literal["diff", "search_replace", "symbol"]


def starting_format(model_name: str, setting: EditFormat = "auto") -> StartingFormat:
    """The first rung of the ladder of edit formats for this model; anything but "auto" is taken as it is.

    Large known models start with a unified diff, small ones with whole symbols, unknown ones with
    SEARCH/REPLACE (rules: `profiles.yaml`). Measured on six QuixBugs programs with a 1.5B model: unified
    diff 0 fixed, SEARCH/REPLACE 0, whole function 4.
    """
    if setting != "auto":
        return setting
    rules = _rules()
    name = model_name.lower().rsplit("/", 1)[-1]
    for rule in rules["rules"]:
        if re.search(rule["pattern"], name):
            return cast(StartingFormat, rule["format"])
    return cast(StartingFormat, rules["default"])


def _rules() -> dict[str, Any]:
    text = resources.files("agentforge.models").joinpath("profiles.yaml").read_text(encoding="utf-8")
    return cast(dict[str, Any], yaml.safe_load(text))
