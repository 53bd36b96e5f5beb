"""Fenced blocks, Python modules and JSON in models' answers."""

from __future__ import annotations

import ast
import time

import pytest

from agentforge.agents.extract import blocks_in, json_values, only_closed_block, parse_python, python_module
from agentforge.agents.extract import test_functions as names_of_tests

CODE = "def test_one():\n    assert 1 + 1 == 2\n"


@pytest.mark.parametrize("info", ["python", "py", "python3", "", "Python", "{.python}"])
def test_af07_every_fence_around_python_is_taken_off(info):
    assert python_module(f"Here it is:\n\n```{info}\n{CODE}```\nI hope it helps.") == CODE


@pytest.mark.parametrize(
    "answer",
    [
        CODE,
        f"Sure, here is the test.\n\n{CODE}",
        f"{CODE}\nThis checks the sum of one and one.",
        f"~~~py\n{CODE}~~~",
    ],
)
def test_af07_code_without_or_with_other_fences(answer):
    module = python_module(answer)
    assert module is not None
    assert names_of_tests(ast.parse(module)) == ("test_one",)
    assert "hope" not in module


def test_af07_no_code_is_none():
    assert python_module("I cannot do that.") is None
    assert python_module("") is None
    assert python_module("```python\ndef broken(:\n```") is None
    assert python_module("Done") is None


@pytest.mark.parametrize("first", ["solution = 5", "answer = solve()", "import os"])
def test_eg26_first_lines_that_are_code_stay(first):
    assert python_module(f"{first}\n{CODE}") == f"{first}\n{CODE}"


def test_eg26_not_only_the_first_fence_and_no_trailing_prose():
    answer = f"```\npip install x\n```\n```py\n{CODE}```\nThe end of it."
    assert python_module(answer) == CODE


def test_fences_close_with_the_mark_that_opened_them():
    answer = "````md\n```python\nx = 1\n```\n````\n~~~\n```\n~~~\n"
    assert blocks_in(answer) == [("md", "```python\nx = 1\n```\n"), ("", "```\n")]


def test_only_closed_block_cuts_the_prose_and_refuses_doubt():
    assert only_closed_block("a\n```py\nx = 1\n```\nand then") == "```py\nx = 1\n```"
    assert only_closed_block("```py\nx = 1\n") is None
    assert only_closed_block("```py\nx = 1\n```\n```py\ny = 1\n```") is None
    assert only_closed_block("x = 1") is None


def test_a_docstring_with_backticks_is_not_the_end():
    code = 'def f():\n    """Use ```x```."""\n    return 1\n'
    assert python_module(f"```python\n{code}```") == code


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": [1, 2,],}\n```', {"a": [1, 2]}),
        ('Here: {"a": "b, }"} done', {"a": "b, }"}),
        ('{"a": 1, // why\n "b": "http://x"}', {"a": 1, "b": "http://x"}),
        ("{'a': True, 'b': None}", {"a": True, "b": None}),
        ('prose {not json} and {"a": {"b": 1}} end', {"a": {"b": 1}}),
        ('[{"a": 1}]', [{"a": 1}]),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
        ('I used a { brace.\n{"a": 1}', {"a": 1}),
    ],
)
def test_json_is_read_in_any_dress(text, value):
    assert json_values(text)[0] == value


@pytest.mark.parametrize("text", ["", "null", "3", '"x"', "{", '{"a": ', "[" * 3000, "{" * 3000])
def test_what_is_no_json_object_gives_nothing(text):
    assert json_values(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        '{"' + '\\"' * 150_000,
        "{" * 1000 + '"' * 100_001,
        "[1, // " + "/* " * 100_000,
        "x = (\n" * 20_000,
        "a " * 200_000,
    ],
    ids=["escapes", "quotes", "comments", "open brackets", "prose"],
)
def test_hostile_answers_take_no_time(text):
    started = time.monotonic()
    assert json_values(text) == ()
    assert python_module(text) is None
    assert time.monotonic() - started < 5


def test_parse_python_survives_hostile_source():
    assert parse_python("x = " + "(" * 5000) is None
    assert parse_python("a\0b") is None
    assert parse_python(r"x = '\d'") is not None
