from __future__ import annotations

import time

import pytest

from agentforge.memory.symbols import MAX_FILE_BYTES, CodeSymbol, SplitFile, decode_source, split_source

SOURCE = '''"""The module."""
import os
from . import sibling
from a.b import c

LIMIT = 3


@decorator(
    1
)
class Outer(Base):
    """The class."""

    attribute = 1

    @property
    def method(self, first,
               second) -> int:
        """The method."""
        def local():
            pass
        return 1

    class Inner:
        async def run(self): ...


try:
    def chosen(): pass
except ImportError:
    def chosen(): return 1

TABLE = {}
'''


def split(text: str, path: str = "a.py") -> SplitFile:
    result = split_source(path, text.encode())
    assert result is not None
    return result


def find(symbols: tuple[CodeSymbol, ...], name: str) -> list[CodeSymbol]:
    return [symbol for symbol in symbols if symbol.name == name]


def test_symbols_have_exact_lines_with_decorators() -> None:
    symbols = split(SOURCE).symbols
    (outer,) = find(symbols, "Outer")
    assert (outer.kind, outer.start_line, outer.end_line, outer.own_end) == ("class", 9, 26, 16)
    assert (outer.signature, outer.docstring) == ("class Outer(Base):", "The class.")
    (method,) = find(symbols, "Outer.method")
    assert (method.kind, method.start_line, method.end_line) == ("method", 17, 23)
    assert method.signature == "def method(self, first,\n               second) -> int:"
    (run,) = find(symbols, "Outer.Inner.run")
    assert (run.start_line, run.end_line) == (26, 26)
    assert not find(symbols, "local")


def test_text_of_a_symbol_is_its_lines() -> None:
    result = split(SOURCE)
    (inner,) = find(result.symbols, "Outer.Inner")
    assert (
        result.text(inner.start_line, inner.end_line) == "    class Inner:\n        async def run(self): ..."
    )


def test_definitions_under_try_and_if_are_found() -> None:
    assert [symbol.start_line for symbol in find(split(SOURCE).symbols, "chosen")] == [30, 32]


def test_module_head_and_code_between_definitions_are_symbols() -> None:
    modules = [symbol for symbol in split(SOURCE).symbols if symbol.kind == "module"]
    assert (modules[0].start_line, modules[0].end_line, modules[0].docstring) == (1, 8, "The module.")
    assert any(symbol.end_line == 34 for symbol in modules)


def test_imports_are_dotted_names() -> None:
    assert split(SOURCE).imports == ("os", ".", ".sibling", "a.b", "a.b.c")


def test_every_line_of_code_belongs_to_a_symbol() -> None:
    result = split(SOURCE)
    covered = {line for one in result.symbols for line in range(one.start_line, one.end_line + 1)}
    assert all(number in covered for number, line in enumerate(result.lines, 1) if line.strip())


@pytest.mark.parametrize("path", ["broken.py", "page.js", "notes.sql"])
def test_other_text_is_cut_into_windows(path: str) -> None:
    result = split("def broken(:\n" + "line\n" * 129, path)
    assert [(one.kind, one.start_line, one.end_line) for one in result.symbols] == [
        ("window", 1, 60),
        ("window", 61, 120),
        ("window", 121, 130),
    ]


def test_carriage_returns_do_not_move_lines() -> None:
    assert find(split("a = 1\r\n\r\ndef f():\r\n    pass\r\n").symbols, "f")[0].start_line == 3


def test_binary_and_huge_files_are_skipped_and_latin_1_is_read() -> None:
    assert decode_source(b"\x7fELF\0\0") is None
    assert decode_source(b"x" * (MAX_FILE_BYTES + 1)) is None
    assert decode_source("# é\n".encode("latin-1")) == "# é\n"
    assert decode_source("\ufeffx = 1".encode()) == "x = 1"


def test_complaint25_a_one_line_file_of_5_mb_costs_nothing() -> None:
    started = time.monotonic()
    assert split_source("a.py", b"x=[" + b"1," * 2_500_000 + b"]") is None
    assert not split("y=1;" * 200_000, "min.js").symbols
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "text",
    [
        "-" * 100_000 + "1",
        "+".join(["1"] * 100_000),
        "(" * 5_000,
        "a" + ".b" * 100_000,
        "def f():\n\tx\n        y\n",
    ],
)
def test_hostile_python_never_raises(text: str) -> None:
    assert not split(text).parsed


def test_warnings_about_the_code_are_not_ours() -> None:
    assert split("x = '\\d'\nassert (x, 1)\n").parsed
