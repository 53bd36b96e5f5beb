"""File sections against a tree: every one of them, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.tree import TreeFile, TreeReader
from agentforge.repo.patch.cut_answer import refuse_cut, refuse_placeholders
from agentforge.repo.patch.edits import FilePatch, Hunk, as_mode
from agentforge.repo.patch.filetext import BOM, is_binary
from agentforge.repo.patch.hunks import apply_hunks
from agentforge.repo.patch.paths import refuse_links
from agentforge.repo.patch.refusal import combined


@dataclass
class Overlay:
    """A tree with the changes made so far; later sections see earlier creations and renames."""

    tree: TreeReader
    changes: dict[str, TreeFile | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def exists(self, path: str) -> bool:
        if path in self.changes:
            return self.changes[path] is not None
        return self.tree.kind(path) == "file"

    def read(self, path: str) -> TreeFile:
        changed = self.changes.get(path)
        return changed if changed is not None else self.tree.read(path)

    def text(self, path: str) -> TreeFile:
        """The text file at `path`; PatchError no_match or binary."""
        if not self.exists(path):
            raise PatchError(RefusalReason.NO_MATCH, f"there is no file {path}", path=path)
        entry = self.read(path)
        if is_binary(entry.data):
            raise PatchError(RefusalReason.BINARY, f"{path} is a binary file", path=path)
        return entry

    def settle(self) -> dict[str, TreeFile | None]:
        """What really differs from the tree; PatchError already_applied when nothing does."""
        real = {path: entry for path, entry in self.changes.items() if self._differs(path, entry)}
        if not real:
            path = next(iter(self.changes), "")
            what = f"the answer leaves {path or 'every file'} as it is"
            raise PatchError(RefusalReason.ALREADY_APPLIED, what, path=path)
        for path, entry in real.items():
            if entry is not None and is_binary(entry.data):
                raise PatchError(RefusalReason.BINARY, f"{path} would become binary", path=path)
        return real

    def _differs(self, path: str, entry: TreeFile | None) -> bool:
        if self.tree.kind(path) != "file":
            return entry is not None
        return entry != self.tree.read(path)


def apply_sections(sections: Sequence[FilePatch], tree: TreeReader, target: str | None) -> Overlay:
    """The change set of a parsed diff. `target` serves hunks without a file header."""
    merged = _merged([_resolved(section, tree, target) for section in sections])
    for section in merged:
        for path in section.paths:
            refuse_links(path, tree)
    overlay = Overlay(tree)
    failures: list[PatchError] = []
    freed = {s.old_path for s in merged if s.kind in ("rename", "delete")}
    for section in merged:
        try:
            _apply(section, overlay, freed)
        except PatchError as error:
            failures.append(error)
    if failures:
        raise combined(failures, others_fit=len(failures) < len(merged))
    return overlay


def _resolved(section: FilePatch, tree: TreeReader, target: str | None) -> FilePatch:
    """Settle which path a plain section means: both sides may differ, or lack the folder of `target`."""
    if not section.paths:
        section.old_path = section.new_path = target or only_file(tree)
        return section
    if section.kind != "modify":
        return section
    path = section.new_path
    if section.old_path != path and _is_backup(path, section.old_path, tree):
        path = section.old_path
    if tree.kind(path) == "missing" and section.literal and tree.kind(section.literal) == "file":
        path = section.literal
    if tree.kind(path) == "missing" and target and same_file_name(path, target):
        path = target
    section.old_path = section.new_path = path
    return section


def _is_backup(new: str, old: str, tree: TreeReader) -> bool:
    """`--- f.py` with `+++ f.py.new`: the file that exists is meant, as git and patch take it."""
    return tree.kind(new) == "missing" and tree.kind(old) == "file" and new.startswith(old)


def same_file_name(path: str, target: str) -> bool:
    return target == path or target.endswith("/" + path) or path.endswith("/" + target)


def only_file(tree: TreeReader) -> str:
    """The path of a tree of one file; PatchError malformed where there are more to choose from."""
    paths = tree.paths()
    first = next(paths, None)
    if first is None or next(paths, None) is not None:
        raise PatchError(RefusalReason.MALFORMED, "the answer names no file, and no target was given")
    return first


def _merged(sections: Sequence[FilePatch]) -> list[FilePatch]:
    """Sections that plainly modify one path become one: their numbers refer to the same original."""
    merged: list[FilePatch] = []
    plain: dict[str, FilePatch] = {}
    made = {s.new_path for s in sections if s.kind in ("create", "rename", "copy")}
    for section in sections:
        first = plain.get(section.new_path) if section.kind == "modify" else None
        if first is not None:
            first.hunks += section.hunks
            first.new_mode = section.new_mode or first.new_mode
            continue
        merged.append(section)
        if section.kind == "modify" and section.new_path not in made:
            plain[section.new_path] = section
    return merged


def _apply(section: FilePatch, overlay: Overlay, freed: set[str]) -> None:
    if section.kind == "create":
        _create(section, overlay, freed)
    elif section.kind == "delete":
        _delete(section, overlay)
    elif section.kind == "modify":
        overlay.changes[section.new_path] = _edited(section, overlay)
    else:
        _move(section, overlay, freed)


def _edited(section: FilePatch, overlay: Overlay) -> TreeFile:
    entry = overlay.text(section.old_path)
    refuse_placeholders(section.hunks, entry.data, section.old_path)
    data, notes = apply_hunks(entry.data, section.hunks, section.old_path)
    refuse_cut(section.hunks, entry.data, data, section.old_path)
    overlay.notes += notes
    return TreeFile(data, as_mode(section.new_mode, entry.mode))


def _create(section: FilePatch, overlay: Overlay, freed: set[str]) -> None:
    path = section.new_path
    if any(op.tag != "+" for hunk in section.hunks for op in hunk.ops if op.text.strip()):
        what = f"{path} is said to be new, but the diff quotes old lines of it"
        raise PatchError(RefusalReason.MALFORMED, what, path=path)
    refuse_placeholders(section.hunks, b"", path)
    data = new_content(section.hunks, path)
    if overlay.exists(path) and path not in freed:
        if overlay.read(path).data == data:
            raise PatchError(RefusalReason.ALREADY_APPLIED, f"{path} is already there", path=path)
        raise PatchError(RefusalReason.NO_MATCH, f"{path} is said to be new, but it exists", path=path)
    overlay.changes[path] = TreeFile(data, as_mode(section.new_mode))


def new_content(hunks: Sequence[Hunk], path: str) -> bytes:
    lines = [op.text + (b"\r\n" if op.crlf else b"\n") for hunk in hunks for op in hunk.ops if op.tag == "+"]
    data = b"".join(lines)
    if hunks and hunks[-1].new_unterminated:
        data = data.removesuffix(b"\n").removesuffix(b"\r")
    return data


def _delete(section: FilePatch, overlay: Overlay) -> None:
    path = section.old_path
    if not overlay.exists(path):
        raise PatchError(RefusalReason.ALREADY_APPLIED, f"{path} is already gone", path=path)
    entry = overlay.text(path)
    left, _ = apply_hunks(entry.data, section.hunks, path)
    if left.removeprefix(BOM):
        what = f"the diff deletes {path} but does not account for all of its lines"
        raise PatchError(RefusalReason.NO_MATCH, what, path=path)
    overlay.changes[path] = None


def _move(section: FilePatch, overlay: Overlay, freed: set[str]) -> None:
    old, new = section.old_path, section.new_path
    if section.kind == "rename" and not overlay.exists(old) and overlay.exists(new):
        raise PatchError(RefusalReason.ALREADY_APPLIED, f"{old} is already {new}", path=new)
    source = _original(overlay, old)
    if overlay.exists(new) and new not in freed:
        if section.kind == "copy" and overlay.read(new).data == source.data and not section.hunks:
            raise PatchError(RefusalReason.ALREADY_APPLIED, f"{new} is already a copy", path=new)
        raise PatchError(RefusalReason.NO_MATCH, f"{new} exists already", path=new)
    data = source.data
    if section.hunks:
        data, notes = apply_hunks(_text_of(source, old), section.hunks, old)
        overlay.notes += notes
    overlay.changes[new] = TreeFile(data, as_mode(section.new_mode, source.mode))
    if section.kind == "rename" and overlay.changes.get(old) is None:
        overlay.changes[old] = None


def _original(overlay: Overlay, path: str) -> TreeFile:
    """Moves read the tree as it was, so that two files may swap their names."""
    if overlay.tree.kind(path) == "file":
        return overlay.tree.read(path)
    return overlay.text(path)


def _text_of(entry: TreeFile, path: str) -> bytes:
    if is_binary(entry.data):
        raise PatchError(RefusalReason.BINARY, f"{path} is a binary file", path=path)
    return entry.data
