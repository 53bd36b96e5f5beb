"""Answers in two edit formats at once: only one is applied, so the other must say the same."""

from __future__ import annotations

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.tree import Changes, TreeReader
from agentforge.repo.patch.diff_apply import Overlay, apply_sections
from agentforge.repo.patch.edits import EditFormat
from agentforge.repo.patch.fences import Block, fenced_blocks
from agentforge.repo.patch.json_edits import apply_json_edits, parse_json_edits
from agentforge.repo.patch.search_replace import looks_like_search_replace
from agentforge.repo.patch.unified_diff import is_diff_block, parse_unified_diff


def refuse_mixture(
    answer: bytes, changes: Changes, taken: EditFormat, tree: TreeReader, target: str | None
) -> None:
    """PatchError malformed when a fence in a format that was not `taken` would change something else.

    What does not fit the tree by itself only illustrates.
    """
    for block in fenced_blocks(answer):
        try:
            overlay = _other(block, taken, tree, target)
            wanted = overlay.settle() if overlay else {}
        except PatchError:
            continue
        lost = [path for path, entry in wanted.items() if changes.get(path) != entry]
        if lost:
            what = f"the answer mixes edit formats, and they disagree about {lost[0]}"
            raise PatchError(RefusalReason.MALFORMED, what, path=lost[0])


def _other(block: Block, taken: EditFormat, tree: TreeReader, target: str | None) -> Overlay | None:
    if looks_like_search_replace(block.body):
        return None
    if is_diff_block(block):
        sections = parse_unified_diff(block.body) if taken != "diff" else []
        return apply_sections(sections, tree, target) if sections else None
    edits = parse_json_edits(block.body) if b'"' in block.body else None
    return apply_json_edits(edits, tree, target) if edits else None
