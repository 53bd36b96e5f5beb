"""Which one symbol is rewritten where only a whole symbol is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agentforge.agents.context import SMALL_FILE_TOKENS, CodeView, Place, Sources, symbol_places
from agentforge.core.paths import is_test_path
from agentforge.core.plan import Step
from agentforge.core.retrieval import Symbol
from agentforge.core.tree import TreeReader


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
    issue calls, what retrieval found in them, symbols the issue mentions, the only function of a file,
    the small file itself, what retrieval found elsewhere. Places in `avoid` (`CodeView.place`) are
    passed over as long as there is another.
    """
    best: CodeView | None = None
    for view in _candidates(Sources(tree), step, symbols, issue, first):
        if view.place not in avoid:
            return view
        best = best or view
    return best


def _candidates(
    sources: Sources, step: Step, symbols: Sequence[Symbol], issue: str, first: Sequence[Place]
) -> Iterator[CodeView]:
    owned = [Place(path, name) for path in step.files for name in step.symbols]
    retrieved = symbol_places(item for item in symbols if not is_test_path(item.path))
    called = set(re.findall(r"([A-Za-z_]\w*)(?=\(|`)", issue))
    mentioned = set(re.findall(r"[A-Za-z_]\w*", issue))
    yield from _at(sources, [*first, *owned])
    yield from _named(sources, step.files, called)
    yield from _at(sources, [place for place in retrieved if place.path in step.files])
    yield from _named(sources, step.files, mentioned)
    for path in step.files:
        yield from _in_file(sources, path)
    yield from _at(sources, retrieved)


def _at(sources: Sources, places: Sequence[Place]) -> Iterator[CodeView]:
    for place in places:
        source = None if is_test_path(place.path) else sources.get(place.path)
        view = source.symbol_at(place) if source else None
        if view:
            yield view


def _named(sources: Sources, paths: Sequence[str], names: set[str]) -> Iterator[CodeView]:
    """Symbols called one of `names`, functions before classes."""
    for path in paths:
        source = sources.get(path)
        spans = source.spans if source else ()
        named = [span for span in spans if span.name.rsplit(".", 1)[-1] in names]
        for span in sorted(named, key=lambda span: (span.kind == "class", span.start)):
            if source:
                yield source.of(span)


def _in_file(sources: Sources, path: str) -> Iterator[CodeView]:
    source = sources.get(path)
    if source is None:
        if sources.is_missing(path):
            yield CodeView(path, 0, 0, "")
        return
    functions = [span for span in source.spans if span.kind == "function"]
    if len(functions) == 1:
        yield source.of(functions[0])
    if source.tokens <= SMALL_FILE_TOKENS:
        yield source.whole()
    yield from (source.of(span) for span in functions)
