from __future__ import annotations

import pytest

from agentforge.memory.paths import PathResolver, is_aside, is_test

PATHS = [
    "django/db/models/query.py",
    "django/db/models/sql/query.py",
    "django/utils/__init__.py",
    "setup.py",
    "src/app/cli.py",
]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("/usr/lib/python3.9/site-packages/django/db/models/query.py", [0]),
        ("sql/query.py", [1]),
        ("query.py", [0, 1]),
        ("./setup.py", [3]),
        ("/home/me/other/setup.py", [3]),
        ("/usr/lib/python3.9/importlib/__init__.py", []),
        ("nowhere.py", []),
        ("/", []),
    ],
)
def test_written_paths_find_their_files(written: str, found: list[int]) -> None:
    assert PathResolver(enumerate(PATHS)).resolve(written) == found


@pytest.mark.parametrize(
    ("dotted", "found"),
    [
        ("django.db.models.query.QuerySet.filter", [(0, "QuerySet.filter")]),
        ("django.utils.x", [(2, "x")]),
        ("app.cli", [(4, "")]),
        ("self.query", []),
        ("os.path", []),
    ],
)
def test_dotted_names_find_the_longest_module(dotted: str, found: list[tuple[int, str]]) -> None:
    assert list(PathResolver(enumerate(PATHS)).resolve_dotted(dotted)) == found


@pytest.mark.parametrize(
    "path", ["tests/a.py", "pkg/tests/util.py", "test_a.py", "pkg/a_test.py", "testing/x.py", "a/conftest.py"]
)
def test_tests_are_known(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize(
    "path", ["django/test/client.py", "pkg/testing/fake.py", "pkg/latest.py", "contest.py"]
)
def test_test_support_of_a_library_is_source(path: str) -> None:
    assert not is_test(path)


def test_docs_and_tooling_are_aside() -> None:
    assert is_aside("docs/conf.py")
    assert is_aside("setup.py")
    assert not is_aside("pkg/docstring.py")
