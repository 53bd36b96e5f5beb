"""Properties of edits over real sources: our own package's files."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agentforge
from agentforge.search.operators import edits_of
from agentforge.search.source import Edit, Source, fingerprint, hot_assignment, hot_source
from tests.search.conftest import STATS

PACKAGE = Path(agentforge.__file__).parent
FILES = sorted((PACKAGE / "search").rglob("*.py")) + sorted((PACKAGE / "core").rglob("*.py"))


def source_of(path: Path) -> Source:
    return Source(str(path.relative_to(PACKAGE)), path.read_bytes())


def sample(source: Source, seed: int, count: int = 40) -> list[Edit]:
    lines = dict.fromkeys(range(1, len(source.starts) + 1), 1.0)
    chosen = random.Random(seed).sample(sorted(lines), min(6, len(lines)))
    edits = list(edits_of(source, dict.fromkeys(chosen, 1.0)))
    return random.Random(seed).sample(edits, min(count, len(edits)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_edit_changes_its_span_and_nothing_else(path: Path) -> None:
    source = source_of(path)
    for edit in sample(source, 7):
        after = edit.apply(source.data)
        assert 0 <= edit.start <= edit.end <= len(source.data)
        assert after[: edit.start] == source.data[: edit.start]
        assert after[edit.start + len(edit.new) :] == source.data[edit.end :]
        assert 0 < edit.weight <= 1.5


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(FILES), seed=st.integers(0, 10_000))
def test_what_is_not_screened_out_parses_as_a_whole_file(path: Path, seed: int) -> None:
    source = source_of(path)
    for edit in sample(source, seed, 15):
        if fingerprint(source, edit) is not None:
            ast.parse(edit.apply(source.data))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(FILES), seed=st.integers(0, 10_000))
def test_the_hot_text_is_the_function_of_the_edited_file(path: Path, seed: int) -> None:
    """Compiled alone it is, name for name and line for line, what the whole edited file would give."""
    source = source_of(path)
    for edit in sample(source, seed, 8):
        hot = hot_source(source, edit)
        if hot is None or fingerprint(source, edit) is None:
            continue
        name, line, text = hot
        alone = [n for n in ast.walk(ast.parse(text)) if getattr(n, "name", "") == name]
        whole = [n for n in ast.walk(ast.parse(edit.apply(source.data))) if getattr(n, "name", "") == name]
        pairs = [ast.dump(n) for n in whole]
        assert ast.dump(alone[0]) in pairs
        assert min([alone[0].lineno, *(d.lineno for d in alone[0].decorator_list)]) == line


def test_generation_is_deterministic() -> None:
    source = Source("stats.py", STATS.encode())
    lines = dict.fromkeys(range(1, 25), 1.0)
    assert list(edits_of(source, lines)) == list(edits_of(source, lines))


def test_equal_trees_have_equal_fingerprints_and_broken_ones_none() -> None:
    source = Source("m.py", b"def f(a, b):\n    return a + b\n")
    first = source.data.index(b"a + b")
    spaced = Edit("m.py", first, first + 5, b"a  +  b", "x", 1.0, 2)
    other = Edit("m.py", first, first + 5, b"b + a", "x", 1.0, 2)
    broken = Edit("m.py", first, first + 5, b"a +", "x", 1.0, 2)
    same = Edit("m.py", first, first + 5, b"a + b", "x", 1.0, 2)
    assert fingerprint(source, spaced) == fingerprint(source, same) != fingerprint(source, other)
    assert fingerprint(source, broken) is None


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_edits_keep_line_endings_comments_and_non_ascii_text(newline: str) -> None:
    text = "def grüße(n):  # hübsch\n    x = 'äöü'\n    return n < 1\n".replace("\n", newline)
    source = Source("m.py", text.encode())
    edits = [e for e in edits_of(source, {3: 1.0}) if e.operator == "comparison" and e.new == b"<="]
    assert edits[0].apply(source.data).decode() == text.replace("n < 1", "n <= 1")
    inserted = [e for e in edits_of(source, {3: 1.0}) if e.operator == "guard"]
    assert all(newline == "\r\n" or b"\r" not in e.new for e in inserted)
    assert all(newline == "\n" or e.new.count(b"\r\n") == e.new.count(b"\n") for e in inserted)


def test_a_method_is_compiled_inside_its_class_with_mangled_names() -> None:
    source = Source(
        "m.py", b"class A:\n    class B:\n        def f(self):\n            return self.__x + 1\n"
    )
    at = source.data.index(b"+ 1")
    hot = hot_source(source, Edit("m.py", at, at + 1, b"-", "x", 1.0, 4))
    assert hot is not None
    assert hot[:2] == ("f", 3)
    code = compile(hot[2], "m.py", "exec")
    inner = code.co_consts[0].co_consts[1] if code.co_consts else None
    assert "_B__x" in repr(hot[2]) or inner is not None


LATIN = b"# -*- coding: latin-1 -*-\nx = '\xc3\xa9'\n"


@pytest.mark.parametrize("data", [b"\xff\xfe", b"def f(:\n", b"\xef\xbb\xbfx = 1\n", LATIN])
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        Source("m.py", data)


ASSIGNMENTS = b"""import re

USED = re.compile("a+")
FREE: object = re.compile("b+")
READY = USED.match
A, B = 1, 2


class Words:
    LIMIT = 3

    def f(self, n=FREE):
        return self.LIMIT
"""


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        (b'"a+"', None),
        (b'"b+"', None),
        (b"1, 2", None),
        (b"USED.match", ((), "READY", "READY = NEW")),
        (b"3", (("Words",), "LIMIT", "LIMIT = NEW")),
    ],
)
def test_an_assignment_is_hot_where_nothing_was_made_of_it_at_import(old: bytes, expected: object) -> None:
    source = Source("m.py", ASSIGNMENTS)
    at = ASSIGNMENTS.index(old)
    edit = Edit("m.py", at, at + len(old), b"NEW", "x", 1.0, ASSIGNMENTS[:at].count(b"\n") + 1)
    assert hot_assignment(source, edit) == expected
