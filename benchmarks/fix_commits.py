"""Small bug fixes in the history of a repository: one source file, a few lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mirrors import Mirror

_HEAD = "\x01"
_FIX_WORDS = re.compile(
    r"\b(fix(e[sd])?|fixing|bugs?|clos(es?|ed)|resolv(es?|ed)|regression|correct(ly|ed|s)?)\b", re.I
)
_RENAME = re.compile(r"\{.* => .*\}| => ")
_TEST_FOLDERS = ("test", "tests", "testing", "testcases", "testsuite")


@dataclass(frozen=True)
class FixCommit:
    """A commit without merges. `size` is max(lines added, lines removed) of its one source file."""

    commit: str
    parent: str
    date: str
    subject: str
    path: str
    size: int
    tests: tuple[str, ...]

    @property
    def says_fix(self) -> bool:
        """Whether the subject has a word that fixes have."""
        return _FIX_WORDS.search(self.subject) is not None


def is_test(path: str) -> bool:
    """Whether `path` looks like a test or what serves tests."""
    place = PurePosixPath(path)
    named = (
        place.name.startswith("test") or place.stem.endswith(("_test", "_tests")) or place.stem == "conftest"
    )
    return named or any(part.lower() in _TEST_FOLDERS for part in place.parts[:-1])


def is_source(path: str) -> bool:
    """Whether `path` is code of the project: no test, no script that builds or documents it."""
    place = PurePosixPath(path)
    aside = {"doc", "docs", "examples", "example", "benchmarks", "benchmark", "bench", "tools", "release"}
    beside = place.name in ("setup.py", "noxfile.py", "tasks.py", "__about__.py", "_version.py", "version.py")
    return place.suffix == ".py" and not beside and not is_test(path) and not aside & set(place.parts[:-1])


def fix_commits(
    mirror: Mirror, most: int = 6, before: str = "", revisions: str = "--all"
) -> Iterator[FixCommit]:
    """Commits that change one source file by at most `most` lines, newest first."""
    arguments = ["log", "--no-merges", "--numstat", "-M", f"--format={_HEAD}%H %P|%cs|%s", revisions]
    if before:
        arguments.insert(1, f"--before={before}")
    text = mirror.git(*arguments).decode("utf-8", "replace")
    for block in text.split(_HEAD)[1:]:
        found = _read_block(block, most)
        if found is not None:
            yield found


def _read_block(block: str, most: int) -> FixCommit | None:
    head, *lines = block.splitlines()
    hashes, date, subject = head.split("|", 2)
    commit, *parents = hashes.split()
    rows = [line.split("\t") for line in lines if line.count("\t") == 2]
    if len(parents) != 1 or any(_RENAME.search(path) for _, _, path in rows):
        return None
    python = [(added, removed, path) for added, removed, path in rows if path.endswith(".py")]
    sources = [row for row in python if is_source(row[2])]
    tests = tuple(path for added, _, path in python if is_test(path) and int(added) > 0)
    aside = [path for _, _, path in python if not is_source(path) and not is_test(path)]
    if len(sources) != 1 or aside:
        return None
    added, removed, path = sources[0]
    size = max(int(added), int(removed))
    if not 0 < size <= most:
        return None
    return FixCommit(commit, parents[0], date, subject, path, size, tests)


def blob(mirror: Mirror, commit: str, path: str) -> bytes:
    """A file at a commit. Raises `subprocess.CalledProcessError` where it is not there."""
    return mirror.git("cat-file", "blob", f"{commit}:{path}")


def repository_name(folder: Path) -> str:
    """owner/name of a mirror's folder `owner+name` or `swe-bench+owner__name`."""
    name = folder.name.removeprefix("swe-bench+")
    return name.replace("__", "/", 1) if "__" in name else name.replace("+", "/", 1)
