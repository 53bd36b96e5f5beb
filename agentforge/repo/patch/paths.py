"""The path jail: every path an answer names is judged by rule before anything is read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.tree import TreeReader

_LONGEST_NAME, _LONGEST_PATH = 255, 4000  # bytes; file systems hold no more
_DRIVE = re.compile(r"^[A-Za-z]:")
_ESCAPES = {
    ord("a"): 7, ord("b"): 8, ord("t"): 9, ord("n"): 10, ord("v"): 11, ord("f"): 12, ord("r"): 13,
    ord('"'): 34, ord("\\"): 92,
}  # fmt: skip
_ESCAPE = re.compile(rb'\\([0-3][0-7]{2}|[abtnvfr"\\])')
_TIMESTAMP = re.compile(rb"\s+(\d{4}-\d\d-\d\d[ T]\d\d:\d\d|[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ ).*$")


def jailed(path: str) -> str:
    """`path` in its plain form, or PatchError: absolute, drive, `..` and `.git` never pass."""
    if "\0" in path:
        raise PatchError(RefusalReason.MALFORMED, "the answer names a path with a NUL in it")
    if path.startswith(("/", "\\")) or _DRIVE.match(path):
        raise PatchError(RefusalReason.PATH_ESCAPE, f"{path} is an absolute path", path=path)
    for part in re.split(r"[/\\]", path):
        if part.rstrip(" ") == "..":
            raise PatchError(RefusalReason.PATH_ESCAPE, f"{path} climbs with `..`", path=path)
        if _is_git(part):
            raise PatchError(RefusalReason.GIT_INTERNAL, f"{path} is git's own", path=path)
    plain = "/".join(part for part in path.split("/") if part not in ("", "."))
    if not plain or path.endswith("/"):
        raise PatchError(RefusalReason.MALFORMED, f"`{path}` names no file", path=path)
    sizes = [len(part.encode("utf-8", "surrogateescape")) for part in (plain, *plain.split("/"))]
    if sizes[0] > _LONGEST_PATH or max(sizes[1:]) > _LONGEST_NAME:
        raise PatchError(RefusalReason.MALFORMED, f"a path of {sizes[0]} bytes is too long", path=path[:200])
    return plain


def _is_git(part: str) -> bool:
    """Whether some file system would take `part` for `.git` (case, NTFS short name, HFS ignorables)."""
    visible = "".join(char for char in part if unicodedata.category(char) != "Cf")
    name = visible.casefold().split(":", 1)[0].rstrip(". ")
    return name in (".git", "git~1")


def strip_prefix(path: str) -> str:
    """Without one leading `a/` or `b/`; git strips one component, once."""
    return path[2:] if path.startswith(("a/", "b/")) else path


def header_path(field: bytes) -> str:
    """The path of a `---`/`+++` line as written: unquoted, without a timestamp; "" for /dev/null."""
    field = field.rstrip(b"\r")
    if field.startswith(b'"'):
        end = _closing_quote(field)
        path = unquote(field[1:end])
    else:
        path = field.split(b"\t", 1)[0]
        path = _TIMESTAMP.sub(b"", path).rstrip(b" ") if b"\t" not in field else path
    return "" if path == b"/dev/null" else as_text(path)


def _closing_quote(field: bytes) -> int:
    position = 1
    while position < len(field) and field[position] != ord('"'):
        position += 2 if field[position] == ord("\\") else 1
    return position


def unquote(body: bytes) -> bytes:
    """Undo git's C-style quoting: octal bytes and letter escapes."""

    def byte(match: re.Match[bytes]) -> bytes:
        code = match.group(1)
        return bytes([int(code, 8)]) if len(code) == 3 else bytes([_ESCAPES[code[0]]])

    return _ESCAPE.sub(byte, body)


def as_text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def git_header_paths(rest: bytes) -> tuple[str, str]:
    """Both paths of `diff --git A B`, as written; ("", "") where they cannot be told apart."""
    if rest.startswith(b'"') or rest.endswith(b'"'):
        return _quoted_pair(rest)
    words = rest.split(b" ")
    pairs = [(b" ".join(words[:cut]), b" ".join(words[cut:])) for cut in range(1, len(words))]
    for old, new in pairs:
        if strip_prefix(as_text(old)) == strip_prefix(as_text(new)):
            return as_text(old), as_text(new)
    return (as_text(pairs[0][0]), as_text(pairs[0][1])) if len(pairs) == 1 else ("", "")


def _quoted_pair(rest: bytes) -> tuple[str, str]:
    if rest.startswith(b'"'):
        end = _closing_quote(rest)
        first, second = unquote(rest[1:end]), rest[end + 1 :].strip()
    else:
        first, _, second = rest.partition(b' "')
        second = b'"' + second
    if second.startswith(b'"'):
        second = unquote(second[1 : _closing_quote(second)])
    return as_text(first), as_text(second)


def refuse_links(path: str, tree: TreeReader) -> None:
    """PatchError unless every folder of `path` is a folder (or missing) and `path` no odd entry."""
    parts = path.split("/")
    for end in range(1, len(parts)):
        _refuse_unless("/".join(parts[:end]), path, tree, ("directory", "missing"))
    _refuse_unless(path, path, tree, ("file", "missing"))


def _refuse_unless(entry: str, path: str, tree: TreeReader, allowed: Iterable[str]) -> None:
    kind = tree.kind(entry)
    if kind not in allowed:
        what = f"{entry} is a {kind}" if kind != "other" else f"{entry} is no regular file"
        raise PatchError(RefusalReason.TYPE_CHANGE, f"{what}, which an edit may not go through", path=path)
