"""Which code an agent sees, as exact text within a budget.

Line numbers stand in the heading, never inside the text: a model copies what it sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agentforge.agents.symbols import Span, decode, enclosing, find_symbol, is_test_path, python_symbols
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


def source_text(tree: TreeReader, path: str) -> str | None:
    """The file as text, or None where it is missing, binary, a link, or huge."""
    if tree.kind(path) != "file":
        return None
    content = tree.read(path).data
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
    named = {place.path for place in places if place.symbol or place.line}
    for place in places:
        text = source_text(tree, place.path)
        if text is None:
            if tree.kind(place.path) == "missing" and not place.symbol and not place.line:
                yield CodeView(place.path, 0, 0, "")
        elif estimate_tokens(text) <= small:
            yield whole_view(place.path, text)
        elif place.symbol or place.line:
            yield from _span_views(place, text)
        elif place.path not in named:
            yield replace(whole_view(place.path, text), whole=False)


def whole_view(path: str, text: str) -> CodeView:
    return CodeView(path, 1, max(1, len(split_lines(text))), text, whole=True)


def split_lines(text: str) -> list[str]:
    r"""Lines with their ends; only ``\n`` ends a line (form feeds and U+2028 are text)."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _span_views(place: Place, text: str) -> Iterator[CodeView]:
    spans = python_symbols(text)
    span = find_symbol(spans, place.symbol) if place.symbol else None
    span = span or (enclosing(spans, place.line) if place.line else None)
    if span is not None:
        yield span_view(place.path, text, span)
    elif place.line:
        lines = split_lines(text)
        start, end = max(1, place.line - 30), min(len(lines), place.line + 30)
        yield CodeView(place.path, start, end, "".join(lines[start - 1 : end]))


def span_view(path: str, text: str, span: Span) -> CodeView:
    owner = span.name.rpartition(".")[0]
    body = "".join(split_lines(text)[span.start - 1 : span.end])
    return CodeView(path, span.start, span.end, body, name=span.name, owner=owner)


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


def choose_focus(
    tree: TreeReader,
    step: Step,
    symbols: Sequence[Symbol],
    issue: str,
    *,
    first: Sequence[Place] = (),
    avoid: frozenset[str] = frozenset(),
) -> CodeView | None:
    """The one symbol (or small or new file) to be written anew by the whole-symbol format.

    In order: `first` (frames of a failure), the step's own symbols, symbols of its files that the
    issue names, what retrieval found, the only function of a file, the small file itself. Places in
    `avoid` (`CodeView.place`) are passed over as long as there is another.
    """
    views = list(_focus_candidates(tree, step, symbols, issue, first))
    fresh = [view for view in views if view.place not in avoid]
    return next(iter(fresh or views), None)


def _focus_candidates(
    tree: TreeReader, step: Step, symbols: Sequence[Symbol], issue: str, first: Sequence[Place]
) -> Iterator[CodeView]:
    owned = [Place(path, name) for path in step.files for name in step.symbols]
    retrieved = symbol_places(item for item in symbols if not is_test_path(item.path))
    inside = [place for place in retrieved if place.path in step.files]
    for place in (*first, *owned):
        yield from _symbol_at(tree, place)
    for path in step.files:
        yield from _named_in(tree, path, issue)
    for place in inside:
        yield from _symbol_at(tree, place)
    for path in step.files:
        yield from _file_focus(tree, path)
    for place in retrieved:
        yield from _symbol_at(tree, place)


def _symbol_at(tree: TreeReader, place: Place) -> Iterator[CodeView]:
    text = source_text(tree, place.path)
    if text is not None and not is_test_path(place.path):
        yield from (view for view in _span_views(place, text) if view.name)


def _named_in(tree: TreeReader, path: str, issue: str) -> Iterator[CodeView]:
    text = source_text(tree, path)
    if text is None:
        return
    words = set(re.findall(r"[A-Za-z_]\w*", issue))
    named = [span for span in python_symbols(text) if span.name.rsplit(".", 1)[-1] in words]
    for span in sorted(named, key=lambda span: (span.kind == "class", span.start)):
        yield span_view(path, text, span)


def _file_focus(tree: TreeReader, path: str) -> Iterator[CodeView]:
    text = source_text(tree, path)
    if text is None:
        if tree.kind(path) == "missing":
            yield CodeView(path, 0, 0, "")
        return
    functions = [span for span in python_symbols(text) if span.kind == "function"]
    if len(functions) == 1:
        yield span_view(path, text, functions[0])
    if estimate_tokens(text) <= SMALL_FILE_TOKENS:
        yield whole_view(path, text)
    for span in functions:
        yield span_view(path, text, span)
