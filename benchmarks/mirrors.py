"""SWE-bench instances as trees, from local bare mirrors and without their git directories."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agentforge.core.tree import Tree, TreeFile
from agentforge.memory.facts import is_indexed

_OLD_FILE = re.compile(r"^--- (?:a/(.+)|/dev/null)$")
_NEW_FILE = re.compile(r"^\+\+\+ (?:b/(.+)|/dev/null)$")
_HUNK = re.compile(r"^@@ -(\d+)")


@dataclass(frozen=True)
class Instance:
    """What is asked, and what the reference patch touched."""

    id: str
    repository: str
    base: str
    issue: str
    patch: str

    @cached_property
    def gold_files(self) -> tuple[str, ...]:
        """Files the patch changes, adds or deletes."""
        names: dict[str, None] = {}
        for line in self.patch.splitlines():
            for pattern in (_OLD_FILE, _NEW_FILE):
                match = pattern.match(line)
                if match and match[1]:
                    names[match[1]] = None
        return tuple(names)

    @cached_property
    def gold_lines(self) -> dict[str, set[int]]:
        """Old lines, by file, that are removed or after which something is added."""
        lines: dict[str, set[int]] = {}
        path, number = "", 0
        for line in self.patch.splitlines():
            if match := _OLD_FILE.match(line):
                path = match[1] or ""
            elif match := _HUNK.match(line):
                number = int(match[1])
            elif line.startswith("-"):
                lines.setdefault(path, set()).add(number)
                number += 1
            elif line.startswith("+") and not line.startswith("+++"):
                lines.setdefault(path, set()).add(max(1, number - 1))
            elif line.startswith(" "):
                number += 1
        return {path: numbers for path, numbers in lines.items() if path}


def read_instances(
    dataset: Path, repositories: Iterable[str] = (), limit: int | None = None
) -> list[Instance]:
    """Instances of a JSON-lines or JSON file in SWE-bench's form, grouped by repository, oldest first."""
    text = dataset.read_text("utf-8")
    rows: list[dict[str, Any]] = (
        json.loads(text)
        if text.lstrip().startswith("[")
        else [json.loads(line) for line in text.splitlines() if line]
    )
    wanted = set(repositories)
    rows = [row for row in rows if not wanted or row["repo"] in wanted]
    rows.sort(key=lambda row: (row["repo"], row.get("created_at", ""), row["instance_id"]))
    found = [
        Instance(row["instance_id"], row["repo"], row["base_commit"], row["problem_statement"], row["patch"])
        for row in rows
    ]
    return found[:limit]


class Mirror:
    """A local copy of a repository's objects. Blobs are read once."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir
        self._blobs: dict[bytes, bytes] = {}

    def git(self, *args: str, stdin: bytes = b"") -> bytes:
        """Standard output of a git command that reads objects."""
        command = ["git", f"--git-dir={self._git_dir}", "-c", "core.hooksPath=/dev/null", *args]
        return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout

    def tree(self, commit: str) -> Tree:
        """The indexed files of `commit`; no history comes with them."""
        entries = []
        for entry in self.git("ls-tree", "-r", "-z", commit).split(b"\0"):
            meta, _, path = entry.partition(b"\t")
            name = path.decode("utf-8", "surrogateescape")
            if meta and meta.split()[1] == b"blob" and is_indexed(name):
                mode, _, blob = meta.split()
                entries.append((name, mode.decode(), blob))
        self._read(blob for _, _, blob in entries)
        return Tree({name: TreeFile(self._blobs[blob], mode) for name, mode, blob in entries})  # type: ignore[arg-type]

    def _read(self, blobs: Iterable[bytes]) -> None:
        missing = list(dict.fromkeys(blob for blob in blobs if blob not in self._blobs))
        if not missing:
            return
        raw = self.git("cat-file", "--batch", stdin=b"\n".join(missing) + b"\n")
        place = 0
        for blob in missing:
            end = raw.index(b"\n", place)
            header = raw[place:end].split()
            size = int(header[2]) if header[1] == b"blob" else 0  # a snapshot may lack its largest files
            self._blobs[blob] = raw[end + 1 : end + 1 + size]
            place = end + (2 + size if header[1] == b"blob" else 1)


def find_mirror(folder: Path, repository: str) -> Mirror | None:
    """The git directory of owner/name under `folder`, by any of the usual names."""
    owner, _, name = repository.partition("/")
    for stem in (
        f"{owner}+{name}",
        f"swe-bench+{owner}__{name}",
        f"{owner}__{name}",
        f"{owner}/{name}",
        name,
    ):
        for tail in ("repo", "", "repo/.git", ".git"):
            place = folder / stem / tail
            if (place / "objects").is_dir() and (place / "HEAD").is_file():
                return Mirror(place)
        if (folder / f"{stem}.git" / "objects").is_dir():
            return Mirror(folder / f"{stem}.git")
    return None
