from __future__ import annotations

import numpy as np
import pytest

from agentforge.core.task import Issue
from agentforge.memory.ranking import IndexSearch
from tests.memory.conftest import make_tree

FILES = {
    "app/__init__.py": "",
    "app/urls.py": (
        '"""URL handling."""\n\n\ndef parse_url(text):\n    """Split a URL."""\n    return text.split("/")\n'
        '\n\ndef join_url(parts):\n    return "/".join(parts)\n'
    ),
    "app/legend.py": (
        "class Legend:\n    colour = 1\n\n    def draw(self, figure):\n"
        '        raise ValueError("legend needs at least one handle")\n'
    ),
    "app/solver.py": (
        "def solve(matrix):\n    return helper(matrix)\n\n\ndef helper(matrix):\n    return matrix[0]\n"
    ),
    "tests/test_urls.py": (
        "from app.urls import parse_url\n\n\ndef test_parse_url():\n    assert parse_url('parse_url')\n"
    ),
    "docs/conf.py": "project = 'url url parse_url'\n",
}


@pytest.fixture(scope="module")
def search() -> IndexSearch:
    return IndexSearch(make_tree(FILES))


@pytest.mark.parametrize(
    ("issue", "path", "symbol", "reason"),
    [
        ("`parse_url` loses the port", "app/urls.py", "parse_url", "names defined here"),
        ("Wrong colour, see app/legend.py", "app/legend.py", "Legend", "paths in the issue"),
        ("it says: legend needs at least one handle\n\nValueError: legend needs at least one handle",
         "app/legend.py", "Legend.draw", "message"),
        ("app.solver.helper misbehaves", "app/solver.py", "helper", "dotted names"),
        ('Boom\n  File "/x/app/urls.py", line 10\nIndexError: 0', "app/urls.py", "join_url", "traceback"),
        ("Legend.draw fails", "app/legend.py", "Legend.draw", "dotted names"),
        ("splitting of a url goes wrong", "app/urls.py", "parse_url", "symbol text"),
    ],
)  # fmt: skip
def test_each_kind_of_evidence_leads_to_its_place(
    search: IndexSearch, issue: str, path: str, symbol: str, reason: str
) -> None:
    best = search.search(issue)[0]
    assert (best.path, best.name) == (path, symbol)
    assert search.rank_files(issue)[0].path == path
    assert any(reason in why for why in best.why), best.why


def test_the_innermost_frame_of_a_traceback_is_the_strongest(search: IndexSearch) -> None:
    ranking = search.rank(
        'Boom\n  File "/x/app/urls.py", line 4, in parse_url\n'
        '  File "/x/app/solver.py", line 6, in helper\n  File "/usr/lib/else.py", line 1, in x\nIndexError: 0'
    )
    frames = ranking.signals.files["traceback"]
    paths = [file.path for file in search.index.files]
    assert frames[paths.index("app/solver.py")] > frames[paths.index("app/urls.py")] > 0
    (strongest,) = np.flatnonzero(ranking.signals.symbols["traceback"] == 1.0)
    assert search.index.symbol(int(strongest)).symbol.name == "helper"
    assert {one.path for one in search.rank_files("Boom", 9)} == set()


def test_code_beside_the_code_that_is_named_gains() -> None:
    tree = make_tree(
        {
            "pkg/__init__.py": "",
            "pkg/front.py": "from pkg.below import store\n\n\ndef render_page(): store()\n",
            "pkg/below.py": "def store(): pass\n",
            "pkg/apart.py": "def other(): pass\n",
            "tests/test_apart.py": "from pkg.apart import other\n\n\ndef test_zigzag(): other()\n",
        }
    )
    search = IndexSearch(tree)
    below = {one.path: one.why for one in search.rank_files("render_page shows nothing")}
    assert below["pkg/below.py"]["imported by the best"] > 0
    apart = {one.path: one.why for one in search.rank_files("zigzag")}
    assert apart["pkg/apart.py"]["tests of that name"] > 0


def test_tests_and_documentation_come_after_source(search: IndexSearch) -> None:
    paths = [file.path for file in search.rank_files("parse_url of a url, parse_url!")]
    assert paths.index("app/urls.py") < min(paths.index("tests/test_urls.py"), paths.index("docs/conf.py"))


def test_symbols_carry_exact_text_and_lines(search: IndexSearch) -> None:
    best = search.search("`parse_url`", k=1)[0]
    assert (best.start_line, best.end_line, best.kind) == (4, 6, "function")
    assert best.text == "\n".join(FILES["app/urls.py"].split("\n")[3:6])


def test_a_large_class_is_shown_by_its_head() -> None:
    body = "".join(f"    def method{n}(self):\n        return {n}\n" for n in range(60))
    found = IndexSearch(make_tree({"a.py": f'class Wide:\n    """Doc."""\n\n{body}'})).search("`Wide`", k=1)[
        0
    ]
    assert (found.kind, found.start_line, found.end_line) == ("class head", 1, 3)


def test_k_bounds_the_answer_and_nothing_alike_gives_nothing(search: IndexSearch) -> None:
    assert len(search.search("url", k=2)) == 2
    assert search.search("url", k=0) == []
    assert search.search("zzz qqq") == []
    assert search.search("") == []


@pytest.mark.parametrize("files", [{}, {"a.txt": "x"}, {"a.py": ""}])
def test_a_tree_without_code_gives_nothing(files: dict[str, str]) -> None:
    search = IndexSearch(make_tree(files))
    assert search.search(Issue(text="parse_url fails in a.py")) == []


def test_ranking_is_the_same_every_time(search: IndexSearch) -> None:
    again = IndexSearch(make_tree(FILES))
    issue = "url legend matrix split"
    assert again.search(issue, 20) == search.search(issue, 20)
