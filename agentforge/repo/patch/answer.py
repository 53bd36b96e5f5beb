"""One entry: any answer a model may give, against a tree, to a change set or a refusal."""

from __future__ import annotations

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.tree import TreeReader
from agentforge.repo.patch.code_answer import apply_code
from agentforge.repo.patch.diff_apply import apply_sections
from agentforge.repo.patch.edits import AppliedEdit
from agentforge.repo.patch.filetext import BOM
from agentforge.repo.patch.json_edits import apply_json_edits, parse_json_edits, whole_json
from agentforge.repo.patch.mixture import refuse_mixture
from agentforge.repo.patch.paths import jailed
from agentforge.repo.patch.search_replace import apply_search_replace, looks_like_search_replace
from agentforge.repo.patch.unified_diff import holds_diff, parse_unified_diff


def apply_answer(answer: bytes | str, tree: TreeReader, *, target: str | None = None) -> AppliedEdit:
    """What `answer` changes in `tree`, all or nothing.

    `target` is the file meant where the answer names none. PatchError when the answer cannot be
    applied whole; nothing is written here (see `write_changes`).
    """
    raw = answer.encode("utf-8", "surrogateescape") if isinstance(answer, str) else answer
    raw = raw.removeprefix(BOM)
    aim = jailed(target) if target else None
    if not raw.strip():
        raise PatchError(RefusalReason.MALFORMED, "the answer is empty")
    edits = None if raw.lstrip()[:1] not in (b"{", b"[") else whole_json(raw)
    if not edits and looks_like_search_replace(raw):
        overlay = apply_search_replace(raw, tree, aim)
        return _alone(raw, AppliedEdit(overlay.settle(), "search_replace", tuple(overlay.notes)), tree, aim)
    if not edits and holds_diff(raw):
        overlay = apply_sections(parse_unified_diff(raw), tree, aim)
        return _alone(raw, AppliedEdit(overlay.settle(), "diff", tuple(overlay.notes)), tree, aim)
    edits = edits or parse_json_edits(raw)
    if edits:
        overlay = apply_json_edits(edits, tree, aim)
        return AppliedEdit(overlay.settle(), "json", tuple(overlay.notes))
    overlay, edit_format = apply_code(raw, tree, aim)
    return AppliedEdit(overlay.settle(), edit_format, tuple(overlay.notes))


def _alone(raw: bytes, edit: AppliedEdit, tree: TreeReader, target: str | None) -> AppliedEdit:
    refuse_mixture(raw, edit.changes, edit.edit_format, tree, target)
    return edit
