"""What a path in a repository is, by its name alone."""

from __future__ import annotations

_FOLDERS = frozenset({"test", "tests", "testing"})


def is_test_path(path: str) -> bool:
    """Whether `path` looks like a test or a helper of tests: its name, or a folder called test(s)."""
    *folders, name = path.split("/")
    named = name.startswith("test_") or name.endswith(("_test.py", "_tests.py"))
    return named or name in {"conftest.py", "tests.py"} or not _FOLDERS.isdisjoint(folders)


def file_of_test(test_id: str) -> str:
    """The file part of a test id."""
    return test_id.split("::", 1)[0]
