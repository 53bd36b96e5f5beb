"""Old and new lines as one run of context, removed and added lines."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

from agentforge.repo.patch.edits import Op

_MOST_PAIRS = 200_000  # equal line pairs; beyond, only the equal head and tail count as context


def line_ops(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[Op, ...]:
    """Old and new lines as one run of context, removed and added lines. Lines may end in CR."""
    ops: list[Op] = []
    for tag, i, j, k, m in _opcodes(old, new):
        if tag == "equal":
            ops += [line_op(" ", line) for line in old[i:j]]
            continue
        ops += [line_op("-", line) for line in old[i:j]]
        ops += [line_op("+", line) for line in new[k:m]]
    return tuple(ops)


def line_op(tag: str, line: bytes) -> Op:
    crlf = line.endswith(b"\r")
    text = line[:-1] if crlf else line
    return Op(" " if tag == " " else "-" if tag == "-" else "+", text, crlf)


def _opcodes(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[str, int, int, int, int]]:
    have, want = Counter(old), Counter(new)
    if sum(count * want[line] for line, count in have.items()) <= _MOST_PAIRS:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        return [(tag, i, j, k, m) for tag, i, j, k, m in matcher.get_opcodes()]
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    a, b = len(old) - tail, len(new) - tail
    return [("equal", 0, head, 0, head), ("replace", head, a, head, b), ("equal", a, len(old), b, len(new))]
