from __future__ import annotations

import pytest

from agentforge.search.examples import Example, extract

CASES = [
    (
        "session",
        "It is wrong:\n\n```python\n>>> clamp(-5, 0, 3)\n0\n```\n",
        ("value", "clamp(-5, 0, 3)", "0"),
    ),
    ("bare session", "See\n\n>>> a(1)\n2\n\nwhich should be 3.", ("value", "a(1)", "3")),
    ("prose", "`clamp(-5, 0, 3)` returns `-5` but it should return `0`.", ("value", "clamp(-5, 0, 3)", "0")),
    ("prose, no quotes", "slug('a b') gives 'a_b', expected 'a-b'.", ("value", "slug('a b')", "'a-b'")),
    ("instead of", "f(1) returns 2 instead of 3", ("value", "f(1)", "3")),
    (
        "block and text",
        "```python\nx = [1]\nprint(f(x))\n```\nExpected: `[2]`\nActual: `[1]`",
        ("value", "f(x)", "[2]"),
    ),
    ("comment", "```\nf(2)  # should be 4\n```", ("value", "f(2)", "4")),
    ("assert", "```python\nassert f(1) == 2\n```", ("asserts", "assert f(1) == 2", "")),
    ("printed", "```\n>>> print(f(1))\none\n```", ("output", "print(f(1))", "one")),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_claims_are_found(text: str, expected: tuple[str, str, str]) -> None:
    assert expected in [(e.kind, e.expression, e.expected) for e in extract(text)]


def test_a_traceback_is_a_claim_that_the_call_must_not_raise() -> None:
    text = '>>> first([])\nTraceback (most recent call last):\n  File "x", line 1\nIndexError: out of range\n'
    assert Example(
        "crash", (), "first([])", error="IndexError", origin="traceback in an interactive example"
    ) in extract(text)


def test_a_wanted_error_is_a_claim_that_it_is_raised() -> None:
    found = extract("`parse('')` should raise `TypeError` but raises ValueError")
    assert [(e.kind, e.error) for e in found][:1] == [("raises", "TypeError")]


def test_earlier_statements_of_a_session_are_kept_as_setup() -> None:
    found = extract(">>> from m import f\n>>> x = [3]\n>>> f(x)\n4\n")
    assert found[0].setup == ("from m import f", "x = [3]")


@pytest.mark.parametrize(
    "text", ["", "It does not work!", "```\nnot python at all {\n```", ">>> (\n", "f(" * 5000, "`" * 4000]
)
def test_text_without_claims_gives_none(text: str) -> None:
    assert extract(text) == []
