"""Signs that an answer was abridged: a comment that stands for code it does not show (rule 12)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.edits import Hunk
from agentforge.repo.patch.filetext import display
from agentforge.repo.patch.outline import analysis_text, parse_module

_COMMENT = re.compile(rb"^\s*(?:#+|//+|/\*+|\*|--|;+|<!--|%|\"\"\")(?P<said>.*?)(?:\*/|-->|\"\"\")?\s*$")
_EMPTY_BODY = re.compile(rb"^\s*(?:pass|\.\.\.)\s+(?=#)")
_EDGES = " \t.…[]()<>{}-–—*_:!=~#"
_LONGEST = 120  # characters of a comment that could be a placeholder
_ARTICLE = r"(?:(?:the|this|your|my|our|all) )?"
_CODE = (
    _ARTICLE + r"(?:(?:existing|original|previous|current|remaining|other|old|class|function|method|"
    r"file|module|test|helper|instance) ){0,3}"
    r"(?:code|methods?|functions?|lines?|logic|implementations?|contents?|imports?|class(?:es)?|file|module|"
    r"body|definitions?|tests?|statements?|script|program|it)"
)
_STAYS = (
    r"(?:(?:is|are|remains?|stays?|goes|left|kept|to) ){0,3}"
    r"(?:unchanged|the same|same|as is|as-is|as before|omitted|untouched|not shown|not changed|intact|"
    r"unmodified|identical|elided)(?: (?:as|like) (?:before|above|is))?(?: (?:here|below|above))?"
)
_BREVITY = r"(?: for brevity)?"
_PLAIN = re.compile(
    rf"(?:keep |keeping )?(?:the )?(?:rest|remainder)(?: of {_CODE})?(?:,? {_STAYS})?(?: here)?{_BREVITY}"
    rf"|keep {_CODE},? {_STAYS}"
    r"|(?:the |all )?(?:existing|remaining|unchanged|other|original|previous) code(?: here)?"
    r"|(?:the |all )?(?:existing|remaining|unchanged) (?:implementation|logic|methods|functions|body)"
    r"|as (?:before|above)|snip|snipped"
    rf"|(?:the )?(?:existing|remaining|previous|original|other|unchanged) {_CODE},? {_STAYS}{_BREVITY}"
    rf"|{_CODE},? {_STAYS}{_BREVITY}|everything else,? {_STAYS}"
    rf"|unchanged(?: {_CODE})?|no changes?(?: here)?|same as (?:before|above|original)|omitted{_BREVITY}"
    rf"|your (?:existing )?code (?:here|goes here)"
)
_DOTTED = re.compile(
    r"(?:the |your )?(?:rest|remainder|remaining|existing|other|same|previous|unchanged|original|more|keep|"
    r"code|snip|snipped|etc|as before|omitted|continue[sd]?)\b.*"
)


def is_placeholder(text: bytes) -> bool:
    """Whether a line is a comment such as `# ... rest unchanged`, standing for lines left out."""
    text = _EMPTY_BODY.sub(b"", text[:1000], count=1)
    found = _COMMENT.match(text)
    if found is None:
        return False
    said = display(found["said"]).strip(_EDGES).lower()
    dotted = b"..." in text or "…".encode() in text
    if not said or len(said) > _LONGEST:
        return dotted and not said
    return bool(_PLAIN.fullmatch(said) or (dotted and _DOTTED.fullmatch(said)))


def refuse_abridged(added: Iterable[bytes], original: Iterable[bytes], path: str) -> None:
    """PatchError partial when an added line stands for code; lines the file itself holds are no sign."""
    standing = [text for text in added if is_placeholder(text)]
    known = {line.strip() for line in original} if standing else set()
    for text in standing:
        if text.strip() not in known:
            raise _abridged(text, path)


def refuse_placeholders(hunks: Sequence[Hunk], data: bytes, path: str) -> None:
    """`refuse_abridged` for hunks; also a bare `...` that is no body of a Python block."""
    original = data.split(b"\n")
    for hunk in hunks:
        refuse_abridged((op.text for op in hunk.ops if op.tag == "+"), original, path)
        previous = b""
        for op in hunk.new:
            bare = op.text.strip() in (b"...", "…".encode())
            if op.tag == "+" and bare and not _may_hold_dots(previous):
                raise _abridged(op.text, path)
            previous = op.text.strip() or previous


def refuse_cut(hunks: Sequence[Hunk], before: bytes, after: bytes, path: str) -> None:
    """PatchError partial when a hunk that the answer's end cuts short leaves Python that does not parse."""
    short = [hunk.label for hunk in hunks if hunk.short]
    if short and path.endswith(".py") and _parses(before) and not _parses(after):
        raise PatchError(RefusalReason.PARTIAL, f"the answer was cut in {short[0]}", path=path)


def _parses(data: bytes) -> bool:
    return not isinstance(parse_module(analysis_text(data)), SyntaxError)


def _may_hold_dots(previous: bytes) -> bool:
    """A block's empty body, an overload under its docstring, or a doctest."""
    ends = previous.endswith((b":", b'"""', b"'''"))
    return not previous or ends or previous.startswith((b">>>", b"..."))


def _abridged(text: bytes, path: str) -> PatchError:
    what = f"the replacement is abridged: `{display(text.strip())}` stands for lines of {path}"
    return PatchError(RefusalReason.PARTIAL, what, path=path)
