"""What git applies, we apply to the same bytes; what git refuses is never applied silently wrong."""

from __future__ import annotations

import difflib
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentforge.core.errors import PatchError
from agentforge.core.tree import Tree, TreeFile
from agentforge.repo.patch import apply_answer, write_changes

ENVIRONMENT = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "LC_ALL": "C"}
PROPERTY = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def git(root: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["git", *arguments], cwd=root, input=given, capture_output=True, env=ENVIRONMENT, check=False
    )


def on_disk(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def lay_out(root: Path, files: dict[str, bytes]) -> Path:
    for path, data in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return root


@st.composite
def texts(draw: st.DrawFn, tag: str) -> list[str]:
    """Lines that are unique but for blank ones, with odd characters inside."""
    count = draw(st.integers(1, 40))
    oddities = st.sampled_from(["", "", "", " \f", "\u2028x", "é", "\t", "  "])
    lines = [f"{tag} {number}{draw(oddities)}" for number in range(count)]
    return [line if draw(st.integers(0, 9)) else "" for line in lines]


@st.composite
def edited(draw: st.DrawFn, lines: list[str]) -> list[str]:
    """The same lines after some deletions, replacements and insertions."""
    result: list[str] = []
    for number, line in enumerate(lines):
        fate = draw(st.integers(0, 11))
        if fate == 0:
            continue
        result.append(f"changed {number}" if fate == 1 else line)
        if fate == 2:
            result += [f"added {number} {extra}" for extra in range(draw(st.integers(1, 3)))]
    return result


def encode(lines: list[str], eol: str, ends: bool) -> bytes:
    text = eol.join(lines) + (eol if ends and lines else "")
    return text.encode()


@st.composite
def edits(draw: st.DrawFn) -> tuple[dict[str, bytes], dict[str, bytes]]:
    before: dict[str, bytes] = {}
    after: dict[str, bytes] = {}
    for name in ("f.py", "pkg/g.py", "my dir/h.txt")[: draw(st.integers(1, 3))]:
        old = draw(texts(name))
        eol = draw(st.sampled_from(["\n", "\r\n"]))
        before[name] = encode(old, eol, draw(st.booleans()))
        after[name] = encode(draw(edited(old)), eol, draw(st.booleans()))
    return before, after


def git_diff(root: Path, before: dict[str, bytes], after: dict[str, bytes], context: int = 3) -> bytes:
    """The diff git makes between two trees."""
    git(root, "init", "-q")
    lay_out(root, before)
    git(root, "add", "-A")
    for path in before:
        (root / path).unlink()
    lay_out(root, after)
    return git(root, "-c", "core.quotepath=false", "diff", "--no-color", f"-U{context}").stdout


@given(edits(), st.integers(1, 3))
@PROPERTY
def test_af01_af02_af04_equals_git_on_its_own_diffs(
    tmp_path_factory: pytest.TempPathFactory, edit: tuple[dict[str, bytes], dict[str, bytes]], context: int
) -> None:
    before, after = edit
    root = tmp_path_factory.mktemp("made")
    patch = git_diff(root, before, after, context)
    tree = Tree({path: TreeFile(data) for path, data in before.items()})
    if not patch:
        return
    changes = apply_answer(patch, tree).changes
    ours = {path: entry.data for path, entry in tree.with_changes(changes).files.items()}
    assert ours == after


@given(edits(), st.integers(0, 5))
@PROPERTY
def test_af02_equals_git_with_offsets(
    tmp_path_factory: pytest.TempPathFactory,
    edit: tuple[dict[str, bytes], dict[str, bytes]],
    offset: int,
) -> None:
    """The files have grown at the top since the diff was made: git and we find the places alike."""
    before, after = edit
    if not all(before.values()):
        return
    patch = git_diff(tmp_path_factory.mktemp("made"), before, after)
    pad = {
        path: b"".join(b"pad %d %d\n" % (n, len(old)) for n in range(offset)) for path, old in before.items()
    }
    grown = {path: pad[path] + old for path, old in before.items()}
    root = lay_out(tmp_path_factory.mktemp("grown"), grown)
    applied = git(root, "apply", "--whitespace=nowarn", "-", given=patch)
    tree = Tree({path: TreeFile(content) for path, content in grown.items()})
    try:
        changes = apply_answer(patch, tree).changes
    except PatchError:
        assert applied.returncode != 0 or not patch
        return
    ours = {path: entry.data for path, entry in tree.with_changes(changes).files.items()}
    if applied.returncode == 0:
        assert ours == on_disk(root)
    else:
        assert ours == {path: pad[path] + new for path, new in after.items()}


@given(edits(), st.data())
@PROPERTY
def test_af03_corrupted_diffs_never_give_other_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    edit: tuple[dict[str, bytes], dict[str, bytes]],
    data: st.DataObject,
) -> None:
    """One line of the diff is spoiled: either we refuse, or the result is what was meant or what git makes.

    Only the added lines may carry the spoiled text, since nothing can tell that they are spoiled.
    """
    before, after = edit
    patch = git_diff(tmp_path_factory.mktemp("made"), before, after)
    lines = patch.split(b"\n")
    quoted = [n for n, line in enumerate(lines) if line[:1] in (b" ", b"-") and not line.startswith(b"---")]
    telling = [n for n in quoted if line_says(lines[n])]
    if not telling:
        return
    victim = data.draw(st.sampled_from(telling))
    spoiled = data.draw(st.sampled_from([b"x", b"0", b"  # what"]))
    lines[victim] = lines[victim].rstrip(b"\r") + spoiled + (b"\r" if lines[victim].endswith(b"\r") else b"")
    tree = Tree({path: TreeFile(content) for path, content in before.items()})
    with pytest.raises(PatchError):
        apply_answer(b"\n".join(lines), tree)


def line_says(line: bytes) -> bool:
    return len(line.strip()) > 1


@given(edits())
@PROPERTY
def test_python_difflib_diffs_apply_too(edit: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    """The diffs of another maker, without git's headers and without marks for a missing final newline."""
    before, after = edit
    patch: list[bytes] = []
    for path, old in before.items():
        made = difflib.diff_bytes(
            difflib.unified_diff,
            old.split(b"\n")[:-1] if old.endswith(b"\n") else old.split(b"\n"),
            after[path].split(b"\n")[:-1] if after[path].endswith(b"\n") else after[path].split(b"\n"),
            b"a/" + path.encode(),
            b"b/" + path.encode(),
            lineterm=b"",
        )
        patch += [line + b"\n" for line in made]
    if not patch or any(not new or not before[path] for path, new in after.items()):
        return
    tree = Tree({path: TreeFile(content) for path, content in before.items()})
    if all(new.rstrip(b"\r\n") == before[path].rstrip(b"\r\n") for path, new in after.items()):
        return
    changes = apply_answer(b"".join(patch), tree).changes
    for path, entry in tree.with_changes(changes).files.items():
        assert entry.data.rstrip(b"\r\n") == after[path].rstrip(b"\r\n")


@given(edits())
@PROPERTY
def test_a_second_time_is_refused(
    tmp_path_factory: pytest.TempPathFactory, edit: tuple[dict[str, bytes], dict[str, bytes]]
) -> None:
    before, after = edit
    patch = git_diff(tmp_path_factory.mktemp("made"), before, after)
    done = Tree({path: TreeFile(content) for path, content in after.items()})
    root = lay_out(tmp_path_factory.mktemp("done"), after)
    twice = git(root, "apply", "--whitespace=nowarn", "-", given=patch)
    try:
        changes = apply_answer(patch, done).changes
    except PatchError:
        return
    assert twice.returncode == 0
    write_changes(lay_out(tmp_path_factory.mktemp("ours"), after), changes)
    ours = {path: entry.data for path, entry in done.with_changes(changes).files.items()}
    assert ours == on_disk(root)
