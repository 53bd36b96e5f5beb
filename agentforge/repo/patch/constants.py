"""Module-level assignments that come with the functions of an answer."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from agentforge.repo.patch.edits import Hunk, Op
from agentforge.repo.patch.filetext import Line, declared_encoding
from agentforge.repo.patch.outline import analysis_text, parse_module
from agentforge.repo.patch.rewrite import rewrite_hunk, transcoded


@dataclass(frozen=True, slots=True)
class Constant:
    """`name = ...` as the answer writes it; `leads`: it stands before the definitions."""

    name: str
    lines: tuple[bytes, ...]
    leads: bool


def assigned_name(node: ast.stmt) -> str:
    """The one name an assignment binds, "" for anything else."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr = node.targets[0]
    elif isinstance(node, ast.AnnAssign):
        target = node.target
    else:
        return ""
    return target.id if isinstance(target, ast.Name) else ""


def constant_hunks(
    lines: Sequence[Line], body: bytes, wanted: Sequence[Constant], anchor: int, path: str
) -> list[Hunk]:
    """Assignments the file has are replaced; new ones that lead the answer go in front of line `anchor`."""
    module = parse_module(analysis_text(body))
    have = {assigned_name(node): node for node in module.body} if isinstance(module, ast.Module) else {}
    hunks: list[Hunk] = []
    fresh: list[bytes] = []
    for constant in wanted:
        label = f"`{constant.name}`"
        new = transcoded(constant.lines, declared_encoding(body), path, label)
        node = have.get(constant.name)
        if node is not None:
            hunks.append(rewrite_hunk(lines, node.lineno - 1, node.end_lineno or node.lineno, new, label))
        elif constant.leads:
            fresh += new
    if fresh:
        ops = tuple(Op("+", text) for text in [*fresh, b"", b""])
        hunks.append(Hunk(ops, anchor, label="the new constants", encoded=True))
    return hunks
