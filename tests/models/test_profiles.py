from __future__ import annotations

import pytest

from agentforge.models.profiles import starting_format


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-4o-2024-08-06", "diff"),
        ("gpt-4.1", "diff"),
        ("openai/gpt-4o", "diff"),
        ("claude-3-5-sonnet-latest", "diff"),
        ("deepseek-chat", "diff"),
        ("gpt-4o-mini", "symbol"),
        ("gpt-4o-mini-2024-07-18", "symbol"),
        ("gpt-4.1-nano", "symbol"),
        ("claude-3-5-haiku-latest", "symbol"),
        ("qwen2.5-coder-1.5b-instruct", "symbol"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "symbol"),
        ("qwen2.5-coder:3b", "symbol"),
        ("qwen2.5-coder:0.5b-instruct-q4_K_M", "symbol"),
        ("smollm2-135m", "symbol"),
        ("TinyLlama-1.1B", "symbol"),
        ("Phi-3-mini-4k", "symbol"),
        ("qwen2.5-coder-32b-instruct", "search_replace"),
        ("llama-3.3-70b-versatile", "search_replace"),
        ("codestral-latest", "search_replace"),
        ("something-new", "search_replace"),
        ("", "search_replace"),
    ],
)
def test_the_name_says_where_the_ladder_starts(name: str, expected: str) -> None:
    assert starting_format(name) == expected


@pytest.mark.parametrize("setting", ["diff", "search_replace", "symbol"])
def test_what_the_user_says_wins(setting: str) -> None:
    assert starting_format("qwen2.5-coder-1.5b", setting) == setting  # type: ignore[arg-type]
    assert starting_format("gpt-4o", setting) == setting  # type: ignore[arg-type]
