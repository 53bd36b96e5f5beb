"""Which tests relate to a change, and which edits a candidate may not bring."""

from __future__ import annotations

import pytest

from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.selection import related_test_files, split_test_edits


def tree(**files: str) -> Tree:
    return Tree({path.replace("__", "/"): TreeFile(text.encode()) for path, text in files.items()})


TREE = Tree(
    {
        "src/pkg/money.py": TreeFile(b""),
        "src/pkg/other.py": TreeFile(b""),
        "tests/test_money.py": TreeFile(b"import pkg\n"),
        "tests/test_dotted.py": TreeFile(b"from pkg.money import add\n"),
        "tests/test_from.py": TreeFile(b"from pkg import (money)\n"),
        "tests/test_package.py": TreeFile(b"import pkg\n"),
        "tests/test_alone.py": TreeFile(b"import json\n"),
        "tests/conftest.py": TreeFile(b"import pkg.money\n"),
        "docs/money.txt": TreeFile(b"import pkg.money\n"),
    }
)


def test_nearest_tests_come_first_and_strangers_not_at_all() -> None:
    found = related_test_files(["src/pkg/money.py"], TREE)
    assert found[0] == "tests/test_money.py"
    assert set(found[1:3]) == {"tests/test_dotted.py", "tests/test_from.py"}
    assert found[3:] == ("tests/test_package.py",)


def test_a_file_that_is_no_python_has_no_related_tests() -> None:
    assert related_test_files(["docs/money.txt"], TREE) == ()


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_money.py",
        "conftest.py",
        "src/pkg/conftest.py",
        "pytest.ini",
        "tox.ini",
        "sitecustomize.py",
    ],
)
def test_edits_of_tests_and_of_the_harness_are_left_out(path: str) -> None:
    changes = {path: TreeFile(b"x"), "src/pkg/money.py": TreeFile(b"y")}
    kept, dropped = split_test_edits(changes, TREE)
    assert list(kept) == ["src/pkg/money.py"]
    assert dropped == (path,)


def test_a_deleted_test_is_an_edit_too() -> None:
    _, dropped = split_test_edits({"tests/test_money.py": None}, TREE)
    assert dropped == ("tests/test_money.py",)


def test_a_new_test_file_is_kept() -> None:
    kept, dropped = split_test_edits({"tests/test_new.py": TreeFile(b"")}, TREE)
    assert list(kept) == ["tests/test_new.py"]
    assert dropped == ()
