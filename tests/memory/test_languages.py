from __future__ import annotations

import time

import pytest

from agentforge.memory import languages
from agentforge.memory.symbols import split_source

SOURCES = {
    "a.js": (
        "// doc of A\nexport class A extends B {\n  m(x) { return 1 }\n  f = () => 2\n}\n"
        'import z from "./z";\n'
        "const g = (a) => {\n  return a\n};\nfunction h() {}\n",
        {"A": (1, 5), "A.m": (3, 3), "A.f": (4, 4), "g": (7, 9), "h": (10, 10)},
        ("./z",),
    ),
    "a.ts": (
        "/** doc */\nexport interface I { a: string }\nabstract class K { private m(): void {} }\n"
        "export const q = async () => 1;\nnamespace N { export function w() {} }\n",
        {"I": (1, 2), "K": (3, 3), "K.m": (3, 3), "q": (4, 4), "N": (5, 5), "N.w": (5, 5)},
        (),
    ),
    "a.tsx": ("export function View() {\n  return <p>hi</p>;\n}\n", {"View": (1, 3)}, ()),
    "A.java": (
        "package p;\nimport java.util.List;\npublic class A {\n  /** d */\n  @Override\n"
        "  public int m(int a) { return 1; }\n  A() {}\n  enum E { X }\n}\n",
        {"A": (3, 9), "A.m": (4, 6), "A.A": (7, 7), "A.E": (8, 8)},
        ("java.util.List",),
    ),
    "a.go": (
        'package p\nimport (\n "fmt"\n "os"\n)\n// T is\ntype T struct { a int }\n'
        "func (t *T) M() int { return 1 }\nfunc F() {}\n",
        {"T": (6, 7), "T.M": (8, 8), "F": (9, 9)},
        ("os", "fmt"),
    ),
    "a.rs": (
        "use std::io;\nstruct S { a: i32 }\nimpl S {\n fn m(&self) {}\n}\nimpl Display for S {\n"
        " fn fmt(&self) {}\n}\nmod x { fn y() {} }\nfn z() {}\n",
        {"S": (2, 2), "S.m": (4, 4), "S.fmt": (7, 7), "x.y": (9, 9), "z": (10, 10)},
        ("std.io",),
    ),
    "a.c": (
        "#include <stdio.h>\nstruct S { int a; };\nstatic int *f(int a)\n{\n return 0;\n}\n",
        {"S": (2, 2), "f": (3, 6)},
        ("stdio.h",),
    ),
    "a.cpp": (
        '#include "a.h"\nnamespace n {\nclass C : public D {\n public:\n  int m() { return 1; }\n};\n'
        "template <class T>\nT &C::g(T a) { return a; }\n}\nint C::k() { return 2; }\n",
        {"n.C": (3, 6), "n.C.m": (5, 5), "n.C.g": (8, 8), "C.k": (10, 10)},
        ("a.h",),
    ),
}


@pytest.mark.parametrize("path", SOURCES)
def test_definitions_and_imports_of_each_language(path: str) -> None:
    text, expected, imports = SOURCES[path]
    split = split_source(path, text.encode())
    assert split is not None
    found = {one.name: (one.start_line, one.end_line) for one in split.symbols if one.kind != "module"}
    assert (found, split.imports, split.parsed) == (expected, imports, True)


def test_a_comment_above_is_the_docstring_and_every_line_belongs_somewhere() -> None:
    split = split_source("a.js", SOURCES["a.js"][0].encode())
    assert split is not None
    (a,) = [one for one in split.symbols if one.name == "A"]
    assert a.docstring == "// doc of A"
    covered = {line for one in split.symbols for line in range(one.start_line, one.end_line + 1)}
    assert covered == set(range(1, 11))


def test_without_a_grammar_a_file_is_cut_into_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    languages._parser.cache_clear()
    split = split_source("a.go", SOURCES["a.go"][0].encode())
    languages._parser.cache_clear()
    assert split is not None
    assert [one.kind for one in split.symbols] == ["window"]


@pytest.mark.parametrize("text", ["{" * 50_000, "(" * 50_000, "class A {" * 5_000, "\ud800 \0x", "é" * 9_000])
@pytest.mark.parametrize("path", ["a.js", "a.cpp", "a.rs"])
def test_hostile_files_are_split_in_bounded_time(path: str, text: str) -> None:
    started = time.process_time()
    split_source(path, text.encode("utf-8", "replace"))
    assert time.process_time() - started < 10
