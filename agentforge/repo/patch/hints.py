"""File names that an answer mentions beside a block."""

from __future__ import annotations

import re

from agentforge.core.tree import TreeReader

_LABEL = re.compile(r"^[#*/\s]*(?:(?:new |full )?file(?: ?name| path)?|path|in|edit|update)\s*:?\s+", re.I)
_ITEM = re.compile(r"^\d+[.)]\s+")
_TAG = re.compile(
    r"^<(?:file|path|filename|file_path)(?:\s+(?:path|name)=[\"']([^\"']+)[\"']\s*)?>([^<]*)(?:</\w+>)?$"
)
_DRIVE = re.compile(r"^[A-Za-z]:[\\/]")
_DECORATION = "*#`:>- \t"
_ONE_WORD = re.compile(r"^[^\s<>|?*\"'`,;(){}$=]+$")
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9_]{0,7}$")
_FOLDERS = re.compile(r"^[\w.\-]+([/\\][\w.\- ~]+)+$")
_KNOWN = {"makefile", "dockerfile", "license", "readme", ".gitignore", ".git"}
_INFO_KEY = re.compile(r"(?:title|file|filename|path)\s*=\s*[\"']?([^\"'\s}]+)")


def path_in_line(line: bytes, tree: TreeReader) -> str:
    """The path a line consists of, markdown and a label such as `File:` taken off; "" when it is prose."""
    text = _ITEM.sub("", line.decode("utf-8", "surrogateescape").strip(), count=1)
    tagged = _TAG.match(text)
    text = (tagged[1] or tagged[2]).strip() if tagged else text
    bare = _LABEL.sub("", text, count=1)
    for candidate in (text, text.strip(_DECORATION), bare.strip("*#`: \t")):
        if is_path(candidate, tree):
            return candidate
    quoted = re.fullmatch(r"[^`]*`([^`]+)`[^`]*", text)
    return quoted[1] if quoted and tree.kind(quoted[1]) == "file" else ""


def path_in_info(info: str, tree: TreeReader) -> str:
    """The path in a fence's info string: `python src/a.py`, `python:src/a.py`, `title="src/a.py"`."""
    keyed = _INFO_KEY.search(info)
    if keyed:
        return keyed[1]
    words = re.sub(r"^(\w+):", r"\1 ", info).split()
    return next((word for word in words if is_path(word, tree)), "")


def is_path(text: str, tree: TreeReader) -> bool:
    """Whether `text` reads as a path: a file of the tree, or one word with a folder or an extension."""
    if not text or "://" in text or len(text) > 300 or "\0" in text:
        return False
    if _DRIVE.match(text) and _ONE_WORD.match(text[2:]):
        return True
    if text.startswith(("/", "../", "./", "~/", "\\", "..\\")) and _ONE_WORD.match(text):
        return bool(text.strip("/.~\\"))
    if tree.kind(text) == "file":
        return True
    if not _ONE_WORD.match(text):
        return False
    named = bool(_EXTENSION.search(text)) or text.casefold() in _KNOWN
    return named or bool(_FOLDERS.match(text))
