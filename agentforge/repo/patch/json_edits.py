"""JSON edits `{"old": …, "new": …}` with an optional path: one, a list, or under "edits"."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.tree import TreeReader
from agentforge.repo.patch.blocks import HunkMaker, append_hunk, apply_blocks
from agentforge.repo.patch.cut_answer import refuse_abridged
from agentforge.repo.patch.diff_apply import Overlay, only_file, same_file_name
from agentforge.repo.patch.edits import Hunk, Span
from agentforge.repo.patch.fences import Block as Fence
from agentforge.repo.patch.fences import fenced_blocks
from agentforge.repo.patch.filetext import declared_encoding, split_lines, transcode
from agentforge.repo.patch.line_ops import line_ops
from agentforge.repo.patch.outline import Block, parse_module
from agentforge.repo.patch.paths import jailed
from agentforge.repo.patch.refusal import numbered
from agentforge.repo.patch.spans import span_hunk

_PAIRS = (("old", "new"), ("old_string", "new_string"), ("old_str", "new_str"), ("search", "replace"))
_PATHS = ("path", "file", "filename", "file_path", "target")
_LISTS = ("edits", "changes", "replacements")
_OLD_KEY = re.compile(r'"(?:old|old_string|old_str)"\s*:')
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_MOST_STARTS = 400  # brackets in prose at which a JSON value is tried


@dataclass(frozen=True, slots=True)
class JsonEdit:
    old: str
    new: str
    path: str
    label: str


def parse_json_edits(answer: bytes) -> list[JsonEdit] | None:
    """The edits of an answer, None when it holds none; PatchError malformed or partial for a broken one."""
    text = answer.decode("utf-8", "surrogateescape")
    if not any(f'"{old}"' in text for old, _ in _PAIRS):
        return None
    blocks = fenced_blocks(answer)
    bodies = [block.body.decode("utf-8", "surrogateescape") for block in blocks]
    edits = _edits_of(_loads(text)) or [edit for body in bodies for edit in _edits_in(body)]
    edits = edits or _edits_in(_prose(text, blocks))
    if edits:
        return [replace(edit, label=f"edit {number}") for number, edit in enumerate(edits, 1)]
    if _OLD_KEY.search(text) and text.lstrip("`jsonJSON \r\n").startswith(("{", "[")):
        raise _broken(text)
    return None


def _edits_in(text: str) -> list[JsonEdit]:
    """The edits of a text that is JSON or holds some; PatchError when it shows more than can be read.

    A dictionary in code that defines something is no edit.
    """
    if not _OLD_KEY.search(text) or _is_code(text):
        return []
    edits = _edits_of(_loads(text)) or [edit for value in _embedded(text) for edit in _edits_of(value)]
    if edits and len(_OLD_KEY.findall(text)) > len(edits):
        raise PatchError(RefusalReason.PARTIAL, "the answer was cut inside its JSON")
    return edits


def _is_code(text: str) -> bool:
    module = parse_module(text)
    return isinstance(module, ast.Module) and any(isinstance(node, Block) for node in module.body)


def _prose(text: str, blocks: Sequence[Fence]) -> str:
    """The answer without its fences, which are read one by one."""
    lines = text.split("\n")
    for block in reversed(blocks):
        del lines[block.start : block.stop]
    return "\n".join(lines)


def whole_json(answer: bytes) -> list[JsonEdit]:
    """The edits of an answer that is one JSON value and nothing else."""
    return _edits_of(_loads(answer.decode("utf-8", "surrogateescape")))


def _broken(text: str) -> PatchError:
    body = text.strip().strip("`").removeprefix("json").strip()
    try:
        json.loads(body, strict=False)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated") or error.pos >= len(body) - 1:
            return PatchError(RefusalReason.PARTIAL, "the answer was cut inside its JSON")
        return PatchError(RefusalReason.MALFORMED, f"the answer is broken JSON: {error}")
    except RecursionError:
        pass
    return PatchError(RefusalReason.MALFORMED, "the JSON of the answer holds no complete edit")


def _loads(text: str) -> Any:
    for candidate in (text, _TRAILING_COMMA.sub(r"\1", text)):
        try:
            return json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def _embedded(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(strict=False)
    position = 0
    for _ in range(_MOST_STARTS):
        found = re.compile(r"[{\[]").search(text, position)
        if found is None:
            return
        try:
            value, position = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            position = found.start() + 1
            continue
        if text[: found.start()].rstrip().endswith("[") and _edits_of(value):
            raise _broken(text[: found.start()].rstrip()[-1:] + text[found.start() :])
        yield value


def _edits_of(value: Any) -> list[JsonEdit]:
    return [_edit(entry, path, number) for number, (entry, path) in enumerate(_entries(value, ""), 1)]


def _entries(value: Any, path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    if isinstance(value, list):
        parts = [list(_entries(entry, path)) for entry in value]
        if any(parts) and not all(parts):
            number = [bool(part) for part in parts].index(False) + 1
            raise PatchError(RefusalReason.MALFORMED, f"entry {number} of the JSON list is no edit")
        yield from chain.from_iterable(parts)
    if not isinstance(value, dict):
        return
    named = [value[key] for key in _PATHS if value.get(key) is not None]
    if any(old in value for old, _ in _PAIRS) and not all(isinstance(name, str) for name in named[:1]):
        raise PatchError(RefusalReason.MALFORMED, "the path of a JSON edit is no string")
    path = next((name for name in named if isinstance(name, str)), path)
    if any(old in value for old, _ in _PAIRS):
        yield value, path
        return
    for key in _LISTS:
        yield from _entries(value.get(key), path)


def _edit(entry: Mapping[str, Any], path: str, number: int) -> JsonEdit:
    old_key, new_key = next(pair for pair in _PAIRS if pair[0] in entry)
    old, new = entry[old_key], entry.get(new_key)
    if not isinstance(old, str) or not isinstance(new, str):
        what = f'edit {number} needs strings under both "{old_key}" and "{new_key}"'
        raise PatchError(RefusalReason.MALFORMED, what, path=path)
    return JsonEdit(old, new, path, f"edit {number}")


# --- applying -----------------------------------------------------------------------------------------


def apply_json_edits(edits: list[JsonEdit], tree: TreeReader, target: str | None) -> Overlay:
    """The change set of all edits."""
    makers: dict[str, list[HunkMaker]] = {}
    created: dict[str, bytes] = {}
    named = [_resolved(edit, tree, target) for edit in edits]
    for edit, path in zip(edits, named, strict=True):
        if not edit.old.strip() and tree.kind(path) == "missing":
            data = _encoded(edit.new, path)
            refuse_abridged(data.split(b"\n"), (), path)
            created[path] = data if data.endswith(b"\n") or not data else data + b"\n"
            continue
        makers.setdefault(path, []).append(_maker(edit, path))
    return apply_blocks(makers, created, tree)


def _resolved(edit: JsonEdit, tree: TreeReader, target: str | None) -> str:
    if not edit.path:
        return target or only_file(tree)
    path = jailed(edit.path)
    stripped = path[2:] if path.startswith(("a/", "b/")) else path
    if tree.kind(path) == "missing" and tree.kind(stripped) == "file":
        return stripped
    if tree.kind(path) == "missing" and target and same_file_name(path, target):
        return target
    return path


def _encoded(text: str, path: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PatchError(RefusalReason.MALFORMED, "the edit holds a lone surrogate", path=path) from None


def _maker(edit: JsonEdit, path: str) -> HunkMaker:
    def make(data: bytes) -> Hunk:
        old, new = _encoded(edit.old, path), _encoded(edit.new, path)
        if not old.strip():
            if not new.strip():
                raise PatchError(RefusalReason.MALFORMED, f"{edit.label} is empty", path=path)
            return append_hunk(data, new.removesuffix(b"\n").split(b"\n"), edit.label)
        return _substring_hunk(data, old, new, edit.label, path) or _line_hunk(old, new, edit.label)

    return make


def _line_hunk(old: bytes, new: bytes, label: str) -> Hunk:
    """The edit by whole lines, for matching loosely."""
    replacement = new.removesuffix(b"\n").split(b"\n") if new else []
    return Hunk(line_ops(old.removesuffix(b"\n").split(b"\n"), replacement), label=label)


def _substring_hunk(data: bytes, old: bytes, new: bytes, label: str, path: str) -> Hunk | None:
    """The edit as exact text, which may begin and end inside a line; None where the text is not there."""
    encoding = declared_encoding(data)
    old, new = transcode(old, encoding) or old, _transcoded(new, encoding, label, path)
    if 0 < data.count(b"\n") == data.count(b"\r\n"):
        old, new = _with_crlf(old), _with_crlf(new)
    elif old not in data and b"\r\n" in old:
        old, new = old.replace(b"\r\n", b"\n"), new.replace(b"\r\n", b"\n")
    starts = _occurrences(data, old)
    if not starts:
        if new.strip() and new in data and old != new:
            raise _already(label, path)
        return None
    if len(starts) > 1:
        raise _twins(data, starts, label, path)
    start = starts[0]
    if old != new and _stands_around(data, start, old, new):
        raise _already(label, path)
    return span_hunk(data, Span(start, start + len(old), new), label)


def _already(label: str, path: str) -> PatchError:
    return PatchError(RefusalReason.ALREADY_APPLIED, f"{path} already holds what {label} puts", path=path)


def _transcoded(text: bytes, encoding: str | None, label: str, path: str) -> bytes:
    result = transcode(text, encoding)
    if result is None:
        what = f"{label} adds text that {path} cannot hold: it declares {encoding}"
        raise PatchError(RefusalReason.MALFORMED, what, path=path)
    return result


def _with_crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _occurrences(data: bytes, text: bytes) -> list[int]:
    starts: list[int] = []
    position = data.find(text)
    while position >= 0 and len(starts) < 20:
        starts.append(position)
        position = data.find(text, position + 1)
    return starts


def _twins(data: bytes, starts: list[int], label: str, path: str) -> PatchError:
    lines = split_lines(data)
    numbers = [data.count(b"\n", 0, start) for start in starts[:4]]
    shown = "\n".join(numbered(lines, number, min(len(lines), number + 2)) for number in numbers)
    what = f"the text that {label} quotes stands in {len(starts)} places of {path}"
    return PatchError(RefusalReason.AMBIGUOUS, what, path=path, closest=shown)


def _stands_around(data: bytes, start: int, old: bytes, new: bytes) -> bool:
    """Whether the old text stands there only as a part of the new one."""
    return any(data.startswith(new, start - offset) for offset in _occurrences(new, old) if start >= offset)
