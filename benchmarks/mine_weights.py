"""How often real fixes have the shape of each edit operator: counted in histories, not chosen by hand.

    python benchmarks/mine_weights.py --mirrors DIR --repositories OWNER/NAME… [--before 2019-01-01]
        [--commits 150] [--out agentforge/search/operators/weights.json] [--uncovered FILE]

For each commit that changes one source file in one place by at most six lines, and that speaks of a fix or
changes tests, the operators are asked for all their edits at the changed lines of the file as it was; an edit
explains the commit when it makes the very syntax tree of the file as it became. An operator's factor is how
often its edits were the fix, against how often its own weights had it expected, smoothed. Repositories whose
bugs measure the engine are refused.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fix_commits import FixCommit, blob, fix_commits
from mirrors import Mirror, find_mirror
from real_bugs_data import DATA, SETS, read_set

from agentforge.search.operators import edits_of
from agentforge.search.source import Edit, Source

OUT = Path(__file__).parent.parent / "agentforge" / "search" / "operators" / "weights.json"
PRIOR = 2.0
"""Fixes' worth of belief that an operator does as its own weights say."""
MAX_BYTES = 120_000
COMMENT = re.compile(rb"#[^\n]*")


@dataclass
class Count:
    """Fixes that one edit explains, and edits offered with the sum of their weights, by operator."""

    seen: int = 0
    fixes: Counter[str] = field(default_factory=Counter)
    offered: Counter[str] = field(default_factory=Counter)
    mass: Counter[str] = field(default_factory=Counter)
    fixes_at: Counter[str] = field(default_factory=Counter)
    uncovered: list[dict[str, str]] = field(default_factory=list)

    def add(self, commit: FixCommit, before: Source, after: bytes) -> None:
        """Count one fix; nothing where it changes docstrings and comments alone."""
        target = tree_of(after)
        if target is None or code_of(after) == code_of(before.data):
            return
        lines = changed_lines(before.data, after)
        if not lines or max(lines) - min(lines) > 12:
            return
        self.seen += 1
        edits = list(edits_of(before, dict.fromkeys(lines, 1.0)))
        self.offered.update(edit.operator for edit in edits)
        for edit in edits:
            self.mass[edit.operator] += edit.weight  # type: ignore[assignment]
        self.fixes_at.update({edit.operator for edit in edits})
        found = explaining(before, after, edits)
        if found:
            share = 1 / len(found)
            for operator in sorted(found):
                self.fixes[operator] += share  # type: ignore[assignment]
        else:
            kind = kind_of(before.data, after)
            self.uncovered.append({"commit": commit.commit, "kind": kind, "size": str(commit.size)})


def explaining(before: Source, after: bytes, edits: Sequence[Edit]) -> set[str]:
    """Operators of the edits that make `after` of `before`, comments and spacing aside."""
    target, bounds, found = tree_of(after), region_bounds(before.data, after), set()
    for edit in edits:
        if edit.operator in found or not same_letters(before.data, after, edit, bounds):
            continue
        if tree_of(edit.apply(before.data)) == target:
            found.add(edit.operator)
    return found


def region_bounds(before: bytes, after: bytes) -> tuple[int, int]:
    """Bytes of `before` outside of which both are equal."""
    start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    tail = 0
    while tail < min(len(before), len(after)) - start and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return start, len(before) - tail


def same_letters(before: bytes, after: bytes, edit: Edit, bounds: tuple[int, int]) -> bool:
    """A cheap look before parsing: equal text, but for comments, spacing, brackets, quotes and commas."""
    start, end = min(edit.start, bounds[0]), max(edit.end, bounds[1])
    start = before.rfind(b"\n", 0, start) + 1
    mine = before[start : edit.start] + edit.new + before[edit.end : end]
    return squeezed(mine) == squeezed(after[start : len(after) - (len(before) - end)])


def squeezed(text: bytes) -> bytes:
    return COMMENT.sub(b"", text).translate(None, b" \t\r\n()\"'\\,")


def tree_of(data: bytes) -> str | None:
    try:
        return ast.dump(ast.parse(data))
    except (SyntaxError, ValueError, RecursionError):
        return None


def code_of(data: bytes) -> str:
    """The syntax tree without docstrings and other bare strings."""
    tree = ast.parse(data)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return ast.dump(tree)


def changed_lines(before: bytes, after: bytes) -> list[int]:
    """Old lines that are replaced, or beside which something is added; from 1."""
    old, new = before.splitlines(), after.splitlines()
    lines: set[int] = set()
    for tag, i1, i2, _, _ in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "insert":
            lines |= {max(1, i1), i1 + 1}
        elif tag != "equal":
            lines |= set(range(i1 + 1, i2 + 1))
    return sorted(line for line in lines if line <= len(old))


def kind_of(before: bytes, after: bytes) -> str:
    """In a few words what a fix did: nodes that went and came, or what changed inside the nodes."""
    for describe in (shape, inner):
        old, new = (Counter(map(describe, ast.walk(ast.parse(data)))) for data in (before, after))
        went, came = (sorted(set(some) - {""}) for some in ((old - new), (new - old)))
        if went or came:
            return f"{named(went)} -> {named(came)}" if describe is shape else "other " + named(came or went)
    return "the same nodes elsewhere"


def named(kinds: Sequence[str]) -> str:
    return "+".join(dict.fromkeys(kind.partition(":")[0] for kind in kinds[:6])) or "nothing"


def shape(node: ast.AST) -> str:
    """The kind of a node; "" for names and loads, of which any change brings some."""
    if isinstance(node, ast.Constant):
        return f"constant {type(node.value).__name__}"
    kept = isinstance(node, (ast.stmt, ast.expr, ast.operator, ast.cmpop, ast.boolop, ast.unaryop))
    return type(node).__name__.lower() if kept and not isinstance(node, (ast.Name, ast.Expr)) else ""


def inner(node: ast.AST) -> str:
    """What a node holds besides nodes."""
    values = {
        ast.Constant: "constant",
        ast.Name: "name",
        ast.Attribute: "attribute",
        ast.keyword: "keyword",
        ast.arg: "parameter",
        ast.alias: "import",
    }
    fields = [repr(value) for _, value in ast.iter_fields(node) if not isinstance(value, (ast.AST, list))]
    return f"{values[type(node)]}:{fields}" if type(node) in values else ""


def walked(mirror: Mirror, before: str, most: int) -> Iterator[tuple[FixCommit, Source, bytes]]:
    """Fix commits of a history with the file before and after, newest first."""
    count = 0
    for commit in fix_commits(mirror, before=before, revisions="HEAD"):
        if count >= most:
            return
        if not (commit.says_fix or commit.tests):
            continue
        try:
            old, new = blob(mirror, commit.parent, commit.path), blob(mirror, commit.commit, commit.path)
            source = Source(commit.path, old)
        except (subprocess.CalledProcessError, SyntaxError, ValueError):
            continue
        if len(old) <= MAX_BYTES:
            count += 1
            yield commit, source, new


def table(count: Count) -> dict[str, Any]:
    """Operator -> fixes, edits offered, how many fixes its weights had expected, and the factor for them."""
    share = sum(count.fixes.values()) / (sum(count.mass.values()) or 1)
    rows = {}
    for operator in sorted(count.offered):
        fixes, expected = float(count.fixes[operator]), count.mass[operator] * share
        rows[operator] = {
            "fixes": round(fixes, 2),
            "offered": count.offered[operator],
            "at": count.fixes_at[operator],
            "expected": round(expected, 2),
            "weight": round((fixes + PRIOR) / (expected + PRIOR), 3),
        }
    return rows


def measured_repositories() -> set[str]:
    return {
        bug.repository
        for name in SETS
        if (DATA / f"real_bugs_{name}.json").exists()
        for bug in read_set(name).bugs
    }


def main() -> None:
    options = parsed()
    forbidden = measured_repositories() & set(options.repositories)
    if forbidden:
        sys.exit(f"these repositories measure the engine: {', '.join(sorted(forbidden))}")
    count, used = Count(), {}
    for repository in options.repositories:
        mirror = find_mirror(options.mirrors, repository)
        if mirror is None:
            print(f"{repository}: no mirror", file=sys.stderr)
            continue
        start = count.seen
        for commit, before, after in walked(mirror, options.before, options.commits):
            count.add(commit, before, after)
        used[repository] = count.seen - start
        print(
            f"{repository}: {used[repository]} fixes, {sum(count.fixes.values()):.0f} explained so far",
            flush=True,
        )
        options.out.write_text(json.dumps(document(count, used, options.before), indent=1) + "\n")
        if options.uncovered:
            options.uncovered.write_text(uncovered_text(count))


def document(count: Count, used: dict[str, int], before: str) -> dict[str, Any]:
    return {
        "operators": table(count),
        "mined": {
            "by": "benchmarks/mine_weights.py",
            "repositories": used,
            "before": before,
            "fixes": count.seen,
            "explained": round(sum(count.fixes.values())),
            "prior": PRIOR,
            "date": datetime.now(UTC).date().isoformat(),
        },
    }


def uncovered_text(count: Count) -> str:
    """Kinds of fixes that no single edit made, the most frequent first."""
    kinds = Counter(row["kind"] for row in count.uncovered)
    sizes = Counter("one line" if row["size"] == "1" else "two to six" for row in count.uncovered)
    lines = [f"{len(count.uncovered)} of {count.seen} fixes have no single edit: {dict(sizes)}", ""]
    lines += [f"{number:4}  {kind}" for kind, number in kinds.most_common(60)]
    return "\n".join(lines) + "\n"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--repositories", nargs="+", required=True)
    parser.add_argument("--before", default="2019-01-01")
    parser.add_argument("--commits", type=int, default=150)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--uncovered", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
