"""Measured cases and real answers of a small model, where they lie beside the checkout."""

from __future__ import annotations

import base64
import difflib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.errors import PatchError
from agentforge.core.tree import Tree, TreeFile
from agentforge.repo.patch import apply_answer

DATA = Path(__file__).parents[3].parent / "shared" / "data"
PROGRAMS = os.environ.get("AGENTFORGE_QUIXBUGS", "")

# What a careful reader does with each answer: the lines that change, or the reason to refuse.
EXPECTED: dict[tuple[str, str], list[str] | str] = {
    ("find_first_in_sorted", "diff"): [
        "-    hi = len(arr)",
        "+    hi = len(arr) - 1  # Adjusted to exclude the last element",
    ],
    ("find_first_in_sorted", "sr"): "already_applied",
    ("find_first_in_sorted", "whole"): [
        "-    hi = len(arr)",
        "+    hi = len(arr) - 1",
        "-            hi = mid",
        "+            hi = mid - 1",
    ],
    ("find_first_in_sorted", "json"): "already_applied",
    ("find_first_in_sorted", "sr1"): "no_match",
    ("flatten", "diff"): "no_match",
    ("flatten", "sr"): ["-            yield flatten(x)", "+            yield x"],
    ("flatten", "whole"): ["-            yield flatten(x)", "+            yield x"],
    ("flatten", "json"): [
        "+    for x in arr:",
        "+        if isinstance(x, list):",
        "+            for y in flatten(x):",
        "+                yield y",
        "+        else:",
        "+            yield x",
    ],
    ("flatten", "sr1"): "no_match",
    ("is_valid_parenthesization", "diff"): "no_match",
    ("is_valid_parenthesization", "sr"): ["-    return True", "+    return depth == 0"],
    ("is_valid_parenthesization", "whole"): ["-    return True", "+    return depth == 0"],
    ("is_valid_parenthesization", "json"): "already_applied",
    ("is_valid_parenthesization", "sr1"): "no_match",
    ("pascal", "diff"): ["-        row = []", "+        row = [1]"],
    ("pascal", "sr"): "already_applied",
    ("pascal", "whole"): "already_applied",
    ("pascal", "json"): "already_applied",
    ("pascal", "sr1"): "malformed",
    ("sieve", "diff"): ["-    for n in range(2, max + 1):", "+    for n in range(2, max):"],
    ("sieve", "sr"): "already_applied",
    ("sieve", "whole"): [
        "-        if any(n % p > 0 for p in primes):",
        "+        if all(n % p != 0 for p in primes):",
    ],
    ("sieve", "json"): [
        "-def sieve(max):",
        "+def sieve(max): primes = list(range(2, max + 1)) for n in range(2, max + 1): "
        "if any(n % p > 0 for p in primes): primes.append(n) return primes",
    ],
    ("sieve", "sr1"): [
        "-        if any(n % p > 0 for p in primes):",
        "+        if any(n % p == 0 for p in primes):",
    ],
    ("sqrt", "diff"): ["-    approx = x / 2", "+    approx = x / 2.0"],
    ("sqrt", "sr"): "already_applied",
    ("sqrt", "whole"): "already_applied",
    ("sqrt", "json"): "already_applied",
    ("sqrt", "sr1"): "already_applied",
}


def load(name: str) -> list[dict[str, Any]]:
    place = DATA / name
    if not place.is_file():
        pytest.skip(f"{name} does not lie beside the checkout")
    found: list[dict[str, Any]] = json.loads(place.read_text())
    return found


def decoded(files: dict[str, str], mode: str | None) -> Tree:
    bit = "100755" if mode == "exec" else "100644"
    return Tree({path: TreeFile(base64.b64decode(data), bit) for path, data in files.items()})  # type: ignore[arg-type]


def test_patch_cases() -> None:
    """Every measured case by bytes and modes; `after` is null where it must be refused."""
    wrong = [case["what"] for case in load("patch_cases.json") if not agrees(case)]
    assert wrong == []


def agrees(case: dict[str, Any]) -> bool:
    before = decoded(case["before"], case["mode"])
    try:
        after = before.with_changes(apply_answer(case["diff"], before).changes)
    except PatchError:
        return case["after"] is None
    return case["after"] is not None and after.files == decoded(case["after"], case["mode"]).files


@pytest.mark.skipif(not PROGRAMS, reason="AGENTFORGE_QUIXBUGS names no folder of the six programs")
def test_model_answers() -> None:
    """Each real answer is applied as a careful reader would, or refused for the right reason."""
    answers = load("model_answers.json")
    assert {(answer["program"], answer["style"]) for answer in answers} == EXPECTED.keys()
    got = {(answer["program"], answer["style"]): outcome(answer) for answer in answers}
    assert got == EXPECTED


def outcome(answer: dict[str, Any]) -> list[str] | str:
    path = answer["program"] + ".py"
    data = (Path(PROGRAMS) / path).read_bytes()
    try:
        entry = apply_answer(answer["text"], Tree({path: TreeFile(data)}), target=path).changes[path]
    except PatchError as error:
        return error.reason.value
    assert entry is not None
    compared = difflib.unified_diff(
        data.decode().split("\n"), entry.data.decode().split("\n"), n=0, lineterm=""
    )
    return [line for line in compared if not line.startswith(("---", "+++", "@@"))]
