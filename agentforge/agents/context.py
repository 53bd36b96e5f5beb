"""Which code an agent sees, as exact text within a budget.

Line numbers stand in the heading, never inside the text: a model copies what it sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from agentforge.agents.symbols import Span, decode, enclosing, find_symbol, python_symbols
from agentforge.core.plan import Step
from agentforge.core.retrieval import Symbol
from agentforge.core.tree import TreeReader
from agentforge.models.ledger import estimate_tokens

SMALL_FILE_TOKENS = 1500
LARGEST_FILE = 2_000_000


@dataclass(frozen=True)
class Place:
    """A spot in the tree: a file, a symbol in it, or a line in it."""

    path: str
    symbol: str = ""
    line: int = 0


@dataclass(frozen=True)
class CodeView:
    """Exact lines `start`..`end` (1-based, inclusive) of `path`; `whole` where that is all of it.

    `owner` is the class around a method; `start` 0 means the file does not exist yet.
    """

    path: str
    start: int
    end: int
    text: str
    name: str = ""
    owner: str = ""
    whole: bool = False

    @property
    def heading(self) -> str:
        if not self.start:
            return f"{self.path} (does not exist yet)"
        if self.whole:
            return f"{self.path} (whole file)"
        return f"{self.path}, lines {self.start}-{self.end}" + (f", {self.name}" if self.name else "")

    @property
    def language(self) -> str:
        return "python" if self.path.endswith((".py", ".pyi")) else ""

    @property
    def place(self) -> str:
        """The same notation as `deadlock.edit_places`."""
        return f"{self.path}::{self.name}" if self.name else self.path


def clip(text: str, tokens: int) -> str:
    """`text` within about `tokens`, head and tail kept, saying how much was cut between them."""
    needed = estimate_tokens(text)
    if needed <= tokens:
        return text
    room = len(text) * max(0, tokens) / needed
    head, tail = int(room * 0.7), int(room * 0.3)
    cut = len(text) - head - tail
    return f"{text[:head]}\n[... {cut} characters left out ...]\n{text[len(text) - tail :]}"


@dataclass(frozen=True)
class Source:
    """One text file of the tree, read and parsed once."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return split_lines(self.text)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        return python_symbols(self.text)

    @cached_property
    def tokens(self) -> int:
        return estimate_tokens(self.text)

    def whole(self) -> CodeView:
        return CodeView(self.path, 1, max(1, len(self.lines)), self.text, whole=True)

    def of(self, span: Span) -> CodeView:
        body = "".join(self.lines[span.start - 1 : span.end])
        return CodeView(
            self.path, span.start, span.end, body, name=span.name, owner=span.name.rpartition(".")[0]
        )

    def symbol_at(self, place: Place) -> CodeView | None:
        """The symbol that `place` names, else the one around its line."""
        span = find_symbol(self.spans, place.symbol) if place.symbol else None
        span = span or (enclosing(self.spans, place.line) if place.line else None)
        return None if span is None else self.of(span)

    def around(self, line: int, margin: int = 30) -> CodeView:
        start, end = max(1, line - margin), min(len(self.lines), line + margin)
        return CodeView(self.path, start, end, "".join(self.lines[start - 1 : end]))


class Sources:
    """The text files of a tree, each read at most once."""

    def __init__(self, tree: TreeReader) -> None:
        self._tree = tree
        self._known: dict[str, Source | None] = {}

    def get(self, path: str) -> Source | None:
        """None where the file is missing, binary, a link, or huge."""
        if path not in self._known:
            text = self._read(path)
            self._known[path] = None if text is None else Source(path, text)
        return self._known[path]

    def is_missing(self, path: str) -> bool:
        return self._tree.kind(path) == "missing"

    def _read(self, path: str) -> str | None:
        if self._tree.kind(path) != "file":
            return None
        content = self._tree.read(path).data
        return None if len(content) > LARGEST_FILE or b"\0" in content[:8000] else decode(content)


def step_places(step: Step, symbols: Sequence[Symbol]) -> tuple[Place, ...]:
    """Where a step works: its symbols in its files, its files, what retrieval found in them."""
    owned = [Place(path, name) for path in step.files for name in step.symbols]
    found = [Place(item.path, item.name, item.start_line) for item in symbols if item.path in step.files]
    return (*owned, *found, *(Place(path) for path in step.files))


def symbol_places(symbols: Iterable[Symbol]) -> tuple[Place, ...]:
    return tuple(Place(item.path, item.name, item.start_line) for item in symbols)


def code_views(
    tree: TreeReader, places: Sequence[Place], tokens: int, *, small: int = SMALL_FILE_TOKENS
) -> tuple[CodeView, ...]:
    """The code at `places` in their order, within `tokens`: small files whole, else the symbols.

    The first view is always given, clipped at a line when it alone is too large.
    """
    chosen: list[CodeView] = []
    left = tokens
    for view in _wanted_views(tree, places, min(small, tokens)):
        if any(_covers(other, view) for other in chosen):
            continue
        cost = _cost(view)
        if cost > left and not chosen:
            view = _shorten(view, left)
            cost = min(left, _cost(view))
        if cost <= left:
            chosen = [other for other in chosen if not _covers(view, other)] + [view]
            left -= cost
    return tuple(chosen)


def _cost(view: CodeView) -> int:
    return estimate_tokens(view.text) + estimate_tokens(view.heading) + 6


def _covers(outer: CodeView, inner: CodeView) -> bool:
    return outer.path == inner.path and outer.start <= inner.start and inner.end <= outer.end


def _wanted_views(tree: TreeReader, places: Sequence[Place], small: int) -> Iterator[CodeView]:
    sources = Sources(tree)
    named = {place.path for place in places if place.symbol or place.line}
    for place in places:
        source, whole = sources.get(place.path), not (place.symbol or place.line)
        if source is None:
            if whole and sources.is_missing(place.path):
                yield CodeView(place.path, 0, 0, "")
        elif source.tokens <= small:
            yield source.whole()
        elif not whole:
            view = source.symbol_at(place) or (source.around(place.line) if place.line else None)
            yield from [view] if view else []
        elif place.path not in named:
            yield replace(source.whole(), whole=False)


def split_lines(text: str) -> list[str]:
    r"""Lines with their ends; only ``\n`` ends a line (form feeds and U+2028 are text)."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _shorten(view: CodeView, tokens: int) -> CodeView:
    """The first lines of `view` that fit, at least one."""
    kept: list[str] = []
    used = estimate_tokens(view.heading) + 6
    for line in split_lines(view.text):
        used += estimate_tokens(line)
        if kept and used > tokens:
            break
        kept.append(line)
    return replace(view, text="".join(kept), end=view.start + max(0, len(kept) - 1), whole=False)
