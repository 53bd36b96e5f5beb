"""What an issue says outright about where the fault lies: paths, tracebacks, dotted and quoted names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentforge.core.task import Issue
from agentforge.memory.tokens import STOP_WORDS, split_identifier

MAX_ISSUE_CHARS = 200_000
_ENDLESS = re.compile(r"\S{400,}")
_PATH = re.compile(
    r"(?<![\w/.\\-])((?:[A-Za-z]:)?[\w.+\\/@-]*[\w+-]\.(?:py[xiw]?|pxd|jsx?|tsx?|java|go|rs|cc|cpp|hpp|[ch]))\b"
)
_FRAME = re.compile(r'File "([^"\n]{1,400})", line (\d{1,7})(?:, in ([\w<>.]+))?')
_SHORT_FRAME = re.compile(r"^\s{0,8}(\S{1,300}\.py):(\d{1,7}):(?: in ([\w<>.]+)| \w+|\s*$)", re.MULTILINE)
_DOTTED = re.compile(r"(?<![\w./\\-])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)")
_FROM_IMPORT = re.compile(r"\bfrom\s{1,9}([\w.]+)\s{1,9}import\s{1,9}\(?([\w, ]{1,300})")
_FENCE = re.compile(r"^(```|~~~)[^\n]*\n(.*?)(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"``?([^`\n]{1,120})``?")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"\b([A-Za-z_]\w{2,})\(")
_QUOTED = re.compile(r"""(?:"([^"\n]{8,200})"|'([^'\n]{8,200})'|`([^`\n]{8,200})`)""")
_ERROR_LINE = re.compile(
    r"^[ \t]{0,20}(?:[\w.]+\.)?\w*(?:Error|Exception|Warning)\s*:\s*(.{8,300})$", re.MULTILINE
)
_VARIABLE = re.compile(r"""['"<{(\[][^'"<>{}()\[\]]*['">})\]]|%\w|\d+|0x[0-9a-f]+""")
_MIN_FRAGMENT = 12


@dataclass(frozen=True)
class Frame:
    """One line of a traceback, path as written."""

    path: str
    line: int
    function: str = ""


@dataclass(frozen=True)
class Evidence:
    """Everything an issue points at. `names` maps an identifier to how strongly it is pointed at (0..1].

    `frames` are innermost first, over all tracebacks, the last traceback first. `fragments` are constant
    pieces of error messages.
    """

    title: str
    text: str
    prose: str = ""
    code: str = ""
    paths: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    dotted: tuple[str, ...] = ()
    names: dict[str, float] = field(default_factory=dict)
    fragments: tuple[str, ...] = ()


def read_issue(issue: Issue | str) -> Evidence:
    """Collect the evidence of an issue. Linear in its length, which is cut at `MAX_ISSUE_CHARS`."""
    text = issue if isinstance(issue, str) else issue.text
    text = _without_hidden(text[:MAX_ISSUE_CHARS])
    text = _ENDLESS.sub(" ", text)  # no name is so long, and patterns stay linear
    title = "" if isinstance(issue, str) else issue.title
    title = title or next((line.strip() for line in text.splitlines() if line.strip()), "")
    whole = text if title in text else f"{title}\n{text}"
    return Evidence(
        title=title,
        text=whole,
        prose=_FENCE.sub("\n", whole),
        code="\n".join(match[1] for match in _FENCE.findall(whole)),
        paths=_unique(match.replace("\\", "/") for match in _PATH.findall(_without_frames(whole))),
        frames=tuple(_frames(whole)),
        dotted=_unique(_dotted(whole)),
        names=_names(title, _without_frames(whole)),
        fragments=_unique(_fragments(whole)),
    )


def _unique(values: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _without_hidden(text: str) -> str:
    """Without comments in markup: what an issue template says to the reporter, and nobody sees."""
    shown: list[str] = []
    place = 0
    while (start := text.find("<!--", place)) >= 0 and (end := text.find("-->", start)) >= 0:
        shown.append(text[place:start])
        place = end + 3
    return " ".join([*shown, text[place:]])


def _without_frames(text: str) -> str:
    return _FRAME.sub(" ", text)


def _frames(text: str) -> list[Frame]:
    found = [(match.start(), match) for match in _FRAME.finditer(text)]
    found += [(match.start(), match) for match in _SHORT_FRAME.finditer(text)]
    found.sort(key=lambda pair: pair[0], reverse=True)
    return [Frame(m[1].replace("\\", "/"), int(m[2]), m[3] or "") for _, m in found]


def _dotted(text: str) -> Iterator[str]:
    yield from (name for name in _DOTTED.findall(text) if not name.endswith((".py", ".com", ".org", ".io")))
    for module, names in _FROM_IMPORT.findall(text):
        yield from (f"{module}.{name.strip()}" for name in names.split(",") if name.strip().isidentifier())


def _names(title: str, text: str) -> dict[str, float]:
    """Identifiers with the weight of the strongest way they are mentioned."""
    weights: dict[str, float] = {}
    code = "\n".join(match[1] for match in _FENCE.findall(text))
    prose = _FENCE.sub("\n", text)
    inline = "\n".join(_INLINE.findall(prose))
    for source, weight in ((code, 0.5), (prose, 0.8), (inline, 1.0), (title, 1.0)):
        plain_words_count = source is inline
        for word in _IDENTIFIER.findall(source):
            if plain_words_count or looks_like_code(word):
                weights[word] = max(weights.get(word, 0.0), weight)
        for word in _CALL.findall(source):
            weights[word] = max(weights.get(word, 0.0), weight)
    return {
        word: weight for word, weight in weights.items() if len(word) > 2 and word.lower() not in STOP_WORDS
    }


def looks_like_code(word: str) -> bool:
    """snake_case or camelCase, not a plain or capitalised word."""
    return "_" in word.strip("_") or (len(split_identifier(word)) > 1 and not word.isupper())


def _fragments(text: str) -> Iterator[str]:
    """Constant parts of quoted and raised messages, long enough to mean something."""
    messages = _ERROR_LINE.findall(text)
    messages += [next(filter(None, groups)) for groups in _QUOTED.findall(text)]
    for message in messages[:60]:
        for piece in _VARIABLE.split(message):
            piece = piece.strip(" .,:;")
            if len(piece) >= _MIN_FRAGMENT and " " in piece:
                yield piece
