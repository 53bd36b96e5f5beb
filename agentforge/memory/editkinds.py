"""Name the kind of an edit and of a failure, by what a patch changes and what an issue says.

The words are those of repair studies (Pan et al. 2009, "Toward an understanding of bug fix patterns";
Soto and Le Goues 2018), as far as lines alone can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ERROR = re.compile(r"\b([A-Z][A-Za-z]{2,40}(?:Error|Exception|Warning|Exit|Interrupt|Iteration))\b")
_NONE = re.compile(r"'?NoneType'?")
_STRING = re.compile(r"""(?s)r?(["']).*?(?<!\\)\1""")
_NUMBER = re.compile(r"\b\d+(?:\.\d+)?\b")
_COMPARISON = re.compile(r"==|!=|<=|>=|<|>|\bis not\b|\bis\b|\bnot in\b|\bin\b")
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
_CALL = re.compile(r"\w\(.*\)")

GUARD = "adding a check before the value is used"
CONDITION = "changing a condition"
COMPARISON = "changing a comparison"
HANDLER = "catching or raising an exception"
ARGUMENT = "changing the arguments of a call"
RETURN = "changing what is returned"
IMPORT = "changing an import"
LITERAL = "changing a literal value"
NAME = "using another name"
DEFINITION = "adding a function, method or class"
REMOVAL = "removing code"
ADDITION = "adding statements"
OTHER = "rewriting statements"


def failure_kinds(texts: Iterable[str]) -> tuple[str, ...]:
    """Exception types named in `texts`, most frequent first; a None among them is its own kind."""
    counts: dict[str, int] = {}
    for text in texts:
        for name in _ERROR.findall(text):
            counts[name] = counts.get(name, 0) + 1
        if _NONE.search(text):
            counts["an unexpected None"] = counts.get("an unexpected None", 0) + 1
    return tuple(sorted(counts, key=lambda name: (-counts[name], name)))


def edit_kinds(patch: str) -> tuple[str, ...]:
    """Kinds of the edits of a unified diff, one for each run of changed lines, in order, each once."""
    found: dict[str, None] = {}
    for removed, added in _runs(patch):
        kind = _kind([line.strip() for line in removed], [line.strip() for line in added])
        if kind:
            found[kind] = None
    return tuple(found)


def _runs(patch: str) -> Iterable[tuple[list[str], list[str]]]:
    removed: list[str] = []
    added: list[str] = []
    for line in [*patch.splitlines(), " "]:
        if line.startswith("-") and not line.startswith("--- "):
            removed.append(line[1:])
        elif line.startswith("+") and not line.startswith("+++ "):
            added.append(line[1:])
        elif removed or added:
            yield removed, added
            removed, added = [], []


def _kind(removed: list[str], added: list[str]) -> str:
    removed, added = [line for line in removed if _is_code(line)], [line for line in added if _is_code(line)]
    if not removed and not added:
        return ""
    if not added:
        return REMOVAL
    if not removed:
        return _of_addition(added)
    if len(removed) == len(added) == 1:
        return _of_replacement(removed[0], added[0])
    return _of_addition(added) if len(added) > 2 * len(removed) else _by_words(added, OTHER)


def _is_code(line: str) -> bool:
    return bool(line) and not line.startswith(("#", '"""', "'''", "//", "*"))


def _of_addition(added: list[str]) -> str:
    if any(line.startswith(("def ", "async def ", "class ")) for line in added):
        return DEFINITION
    if added[0].startswith(("if ", "elif ", "assert ")):
        return GUARD
    return _by_words(added, ADDITION)


def _by_words(lines: list[str], otherwise: str) -> str:
    if all(line.startswith(("import ", "from ")) for line in lines):
        return IMPORT
    if any(line.startswith(("try:", "except", "raise ", "finally:")) for line in lines):
        return HANDLER
    if any(line.startswith(("if ", "elif ", "while ")) for line in lines):
        return CONDITION
    return otherwise


def _of_replacement(old: str, new: str) -> str:
    if old.startswith(("import ", "from ")) and new.startswith(("import ", "from ")):
        return IMPORT
    if old.startswith(("except", "raise ")) or new.startswith(("except", "raise ")):
        return HANDLER
    if _blank(old, _COMPARISON) == _blank(new, _COMPARISON):
        return COMPARISON
    if _blank(_blank(old, _STRING), _NUMBER) == _blank(_blank(new, _STRING), _NUMBER):
        return LITERAL
    if old.startswith(("if ", "elif ", "while ")) or new.startswith(("if ", "elif ", "while ")):
        return CONDITION
    if _blank(old, _NAME) == _blank(new, _NAME):
        return NAME
    if old.startswith("return") or new.startswith("return"):
        return RETURN
    if _CALL.search(old) and _CALL.search(new):
        return ARGUMENT
    return OTHER


def _blank(text: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub("\0", text)
