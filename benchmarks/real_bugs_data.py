"""Real one-place bug fixes as data: where they are, which tests are given and which judge.

A file of `data/` names, for each fix, a repository, two commits, test files and test ids; no line of anyone's
code. `hidden` are line ranges of the fix's test files that are left out of the tree the engine gets: test
functions, parameter sets or assertions. The judge has the whole files, so it asks what the engine never saw.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirrors import Mirror

from agentforge.core.ports import Environment, EnvironmentSpec
from agentforge.core.tree import FileMode, Tree, TreeFile
from agentforge.sandbox.docker_sandbox import DockerSandbox

DATA = Path(__file__).parent / "data"
SETS = ("dev", "heldout")
_PATHS = "import sys; sys.path[:0] = ['/workspace/repo', '/workspace/repo/src']"
"""The tree's own code comes before an installed release of the same project."""


@dataclass(frozen=True)
class Bug:
    """One fix. `size`: max(lines added, lines removed) of the one source file, without tests.

    `given` fail on the base and pass on the fix; `judge` pass on the fix, and those of them in
    `judge_failing` fail on the base.
    """

    id: str
    repository: str
    base: str
    fix: str
    source: str
    tests: tuple[str, ...]
    given: tuple[str, ...]
    judge: tuple[str, ...]
    judge_failing: tuple[str, ...]
    issue: str
    size: int
    category: str
    needed: str
    hidden: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    @property
    def split(self) -> bool:
        """Whether anything of the fix's tests is kept from the engine."""
        return bool(self.hidden)


@dataclass(frozen=True)
class BugSet:
    name: str
    packages: tuple[str, ...]
    bugs: tuple[Bug, ...]


def read_set(name: str) -> BugSet:
    """The set `dev` or `heldout`."""
    document = json.loads((DATA / f"real_bugs_{name}.json").read_text("utf-8"))
    return BugSet(name, tuple(document["packages"]), tuple(map(_bug, document["bugs"])))


def _bug(row: dict[str, Any]) -> Bug:
    names = ("tests", "given", "judge", "judge_failing")
    lists = {name: tuple(row[name]) for name in names}
    hidden = {path: tuple((first, last) for first, last in spans) for path, spans in row["hidden"].items()}
    return Bug(**{**row, **lists, "hidden": hidden})


def whole_tree(mirror: Mirror, commit: str) -> Tree:
    """Every file of `commit` but submodules."""
    rows = [
        entry.partition(b"\t") for entry in mirror.git("ls-tree", "-r", "-z", commit).split(b"\0") if entry
    ]
    blobs = [(meta.split(), path.decode("utf-8", "surrogateescape")) for meta, _, path in rows]
    wanted = [(mode.decode(), name, path) for (mode, kind, name), path in blobs if kind == b"blob"]
    asked = b"".join(name + b"\n" for _, name, _ in wanted)
    raw = mirror.git("cat-file", "--batch", stdin=asked)
    files: dict[str, TreeFile] = {}
    place = 0
    for mode, _, path in wanted:
        end = raw.index(b"\n", place)
        header = raw[place:end].split()
        size = int(header[2]) if header[1] == b"blob" else 0  # a snapshot may lack its largest files
        files[path] = TreeFile(raw[end + 1 : end + 1 + size], _mode(mode))
        place = end + (2 + size if header[1] == b"blob" else 1)
    return Tree(files)


def _mode(mode: str) -> FileMode:
    return "100755" if mode == "100755" else "120000" if mode == "120000" else "100644"


def without_lines(data: bytes, spans: tuple[tuple[int, int], ...]) -> bytes:
    """`data` without the lines of `spans`, which count from 1 and include their last."""
    gone = {number for first, last in spans for number in range(first, last + 1)}
    lines = data.splitlines(keepends=True)
    return b"".join(line for number, line in enumerate(lines, 1) if number not in gone)


def test_files(mirror: Mirror, bug: Bug, *, whole: bool) -> dict[str, TreeFile]:
    """The fix's test files, without what is hidden unless `whole`."""
    found = {}
    for path in bug.tests:
        data = mirror.git("cat-file", "blob", f"{bug.fix}:{path}")
        found[path] = TreeFile(data if whole else without_lines(data, bug.hidden.get(path, ())))
    return found


def given_tree(mirror: Mirror, bug: Bug) -> Tree:
    """What the engine gets: the base with the given tests."""
    return whole_tree(mirror, bug.base).with_changes(test_files(mirror, bug, whole=False))


async def environment_of(sandbox: DockerSandbox, bugs: BugSet) -> Environment:
    """One image for the whole set, made through the sandbox's own door once."""
    install = "pip install --only-binary :all: --no-cache-dir " + " ".join(bugs.packages)
    paths = f'echo "{_PATHS}" > "$(python -c "import site; print(site.getsitepackages()[0])")/aa_first.pth"'
    tree = Tree({"nothing.py": TreeFile(b"\n")})
    return await sandbox.prepare(tree, EnvironmentSpec(setup=(install, paths)))
