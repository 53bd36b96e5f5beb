"""Which tests relate to a change."""

from __future__ import annotations

from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.selection import related_test_files

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
