"""Which code an agent sees: exact text, within the budget, line numbers apart."""

from __future__ import annotations

import pytest

from agentforge.agents.context import Place, Sources, code_views, split_lines, step_places
from agentforge.agents.focus import choose_focus
from agentforge.agents.symbols import changes_between, enclosing, find_symbol, python_symbols
from agentforge.core.paths import is_test_path
from agentforge.core.plan import Step
from agentforge.core.retrieval import Symbol
from agentforge.core.tree import Tree, TreeFile
from agentforge.models.ledger import estimate_tokens
from tests.agents.scripted import CALC, ISSUE, TREE, tree_of

BIG = "".join(f"def f{number}(x):\n    return x + {number}\n\n\n" for number in range(400))
LARGE = tree_of({"big.py": BIG, "small.py": CALC})


def step(**values: object) -> Step:
    return Step.model_validate({"id": "s1", "description": "d", **values})


def test_small_files_are_shown_whole_and_exact():
    (view,) = code_views(TREE, [Place("pkg/calc.py")], 4000)
    assert view.whole
    assert view.text == CALC
    assert view.heading == "pkg/calc.py (whole file)"


def test_of_a_large_file_only_the_symbols():
    views = code_views(LARGE, [Place("big.py", "f7"), Place("big.py", "f300"), Place("big.py")], 4000)
    assert [(view.name, view.start, view.end) for view in views] == [("f7", 29, 30), ("f300", 1201, 1202)]
    assert views[0].text == "def f7(x):\n    return x + 7\n"
    assert views[0].heading == "big.py, lines 29-30, f7"


def test_a_line_shows_the_symbol_around_it():
    (view,) = code_views(LARGE, [Place("big.py", "", 30)], 4000)
    assert view.name == "f7"


def test_a_large_file_without_symbols_is_clipped_at_a_line():
    (view,) = code_views(LARGE, [Place("big.py")], 500)
    assert not view.whole
    assert BIG.startswith(view.text)
    assert view.text.endswith("\n")
    assert view.end == view.text.count("\n")


@pytest.mark.parametrize("tokens", [60, 200, 1000, 5000])
def test_views_stay_within_the_budget(tokens):
    places = [Place("small.py"), *(Place("big.py", f"f{number}") for number in range(50))]
    views = code_views(LARGE, places, tokens)
    assert views
    assert sum(estimate_tokens(view.text) for view in views) <= tokens


def test_nothing_is_shown_twice():
    views = code_views(
        TREE, [Place("pkg/calc.py", "add"), Place("pkg/calc.py"), Place("pkg/calc.py", "Box")], 4000
    )
    assert len(views) == 1


def test_missing_binary_and_huge_files():
    tree = Tree(
        {
            "a.bin": TreeFile(b"\0x"),
            "link": TreeFile(b"/etc/passwd", "120000"),
            "l.py": TreeFile(b"x='\xe9'\n"),
        }
    )
    sources = Sources(tree)
    assert sources.get("a.bin") is None
    assert sources.get("link") is None
    assert sources.get("l.py").text == "x='\ufffd'\n"  # type: ignore[union-attr]
    (view,) = code_views(tree, [Place("new.py"), Place("gone.py", "f")], 100)
    assert view.heading == "new.py (does not exist yet)"


def test_only_newlines_end_lines():
    assert split_lines("a\x0cb\u2028c\nd") == ["a\x0cb\u2028c\n", "d"]


def test_symbols_with_exact_lines():
    spans = python_symbols(
        "@deco\ndef f():\n    def g():\n        pass\n\n\nclass A:\n    x = 1\n\n    def m(self): ...\n"
    )
    assert [(span.name, span.start, span.end) for span in spans] == [
        ("f", 1, 4),
        ("f.g", 3, 4),
        ("A", 7, 10),
        ("A.m", 10, 10),
    ]
    assert find_symbol(spans, "m()").name == "A.m"  # type: ignore[union-attr]
    assert find_symbol(spans, "pkg.mod.A.m").name == "A.m"  # type: ignore[union-attr]
    assert find_symbol(spans, "nothing") is None
    assert enclosing(spans, 4).name == "f.g"  # type: ignore[union-attr]
    assert enclosing(spans, 6) is None
    assert python_symbols("x = (") == ()


def test_symbols_of_a_file_that_does_not_parse():
    spans = python_symbols("class A:\n    def m(self):\n        print 'old'\n\n\ndef f(): pass\n")
    assert [(span.name, span.start, span.end) for span in spans] == [("A", 1, 3), ("A.m", 2, 3), ("f", 6, 6)]


def test_deep_nesting_costs_no_stack():
    chain = "if x == 0:\n    pass\n" + "".join(f"elif x == {number}:\n    pass\n" for number in range(2500))
    assert python_symbols(chain) == ()


def test_a_declared_encoding_is_read():
    tree = Tree({"l.py": TreeFile("# coding: latin-1\nx = 'é'\n".encode("latin-1"))})
    (view,) = code_views(tree, [Place("l.py")], 500)
    assert "é" in view.text


@pytest.mark.parametrize(
    ("wanted", "symbols", "name"),
    [
        ({"files": ["pkg/calc.py"], "symbols": ["double"]}, (), "double"),
        ({"files": ["pkg/calc.py"], "symbols": ["Box.total"]}, (), "Box.total"),
        ({"files": ["pkg/calc.py"], "symbols": ["no_such"]}, (), "add"),
        ({"files": ["pkg/calc.py"]}, (), "add"),
        (
            {},
            (Symbol(path="pkg/calc.py", name="double", kind="f", start_line=9, end_line=10, text=""),),
            "double",
        ),
    ],
)
def test_focus_is_the_steps_symbol_then_what_the_issue_names(wanted, symbols, name):
    focus = choose_focus(TREE, step(**wanted), symbols, ISSUE.text)
    assert focus is not None
    assert focus.name == name


def test_focus_leaves_failed_places_while_there_are_others():
    wanted = step(files=["pkg/calc.py"])
    focus = choose_focus(
        TREE,
        wanted,
        (),
        ISSUE.text,
        first=(Place("pkg/calc.py", "", 5),),
        avoid=frozenset({"pkg/calc.py::add"}),
    )
    assert focus is not None
    assert focus.name != "add"


def test_focus_of_a_new_and_of_a_small_file():
    assert choose_focus(TREE, step(files=["pkg/new.py"]), (), "x").start == 0  # type: ignore[union-attr]
    tree = tree_of({"a.py": "x = 1\ny = 2\n"})
    assert choose_focus(tree, step(files=["a.py"]), (), "x").whole  # type: ignore[union-attr]
    assert choose_focus(tree, step(), (), "x") is None


def test_step_places_put_the_owned_symbols_first():
    places = step_places(step(files=["pkg/calc.py"], symbols=["add"]), ())
    assert places == (Place("pkg/calc.py", "add"), Place("pkg/calc.py"))


def test_changes_between_trees():
    other = TREE.with_changes(
        {"README.md": None, "new.py": TreeFile(b"x\n"), "pkg/calc.py": TreeFile(b"y\n")}
    )
    changes = changes_between(TREE, other)
    assert TREE.with_changes(changes).digest == other.digest
    assert set(changes) == {"README.md", "new.py", "pkg/calc.py"}
    assert changes_between(TREE, TREE) == {}


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("tests/a.py", True),
        ("pkg/test_x.py", True),
        ("x_test.py", True),
        ("conftest.py", True),
        ("pkg/attest.py", False),
    ],
)
def test_is_test_path(path, is_test):
    assert is_test_path(path) is is_test
