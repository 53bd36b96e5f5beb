"""Functions and classes of a Python file, by exact lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentforge.core.tree import Changes, Tree
from agentforge.repo.patch.filetext import BOM, declared_encoding
from agentforge.repo.patch.outline import outline


@dataclass(frozen=True)
class Span:
    """A symbol: qualified name ("Class.method"), kind, lines 1-based inclusive, decorators included."""

    name: str
    kind: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start + 1


def python_symbols(source: str | bytes) -> tuple[Span, ...]:
    """All functions, methods and classes in order of their first line, as the patch engine sees them."""
    content = source.encode("utf-8", "replace") if isinstance(source, str) else source
    try:
        found = outline(content)
    except RecursionError:  # an elif chain of hundreds is nested that deep
        return ()
    spans = [Span(".".join(item.qualified), item.kind, item.start + 1, item.end) for item in found]
    return tuple(sorted(spans, key=lambda span: (span.start, -span.end)))


def find_symbol(spans: Iterable[Span], name: str) -> Span | None:
    """The span called `name`: the qualified name first, else the only one with that last part."""
    known = list(spans)
    wanted = name.strip().removesuffix("()").replace("::", ".").split(":")[-1]
    for span in known:
        if span.name == wanted:
            return span
    last = wanted.rsplit(".", 1)[-1]
    alike = [span for span in known if span.name.rsplit(".", 1)[-1] == last]
    return alike[0] if len(alike) == 1 else None


def enclosing(spans: Iterable[Span], line: int) -> Span | None:
    """The innermost symbol around `line`."""
    around = [span for span in spans if span.start <= line <= span.end]
    return min(around, key=lambda span: span.size, default=None)


def changes_between(base: Tree, other: Tree) -> Changes:
    """What turns `base` into `other`."""
    changed = {path: entry for path, entry in other.files.items() if base.files.get(path) != entry}
    return {**changed, **{path: None for path in base.files if path not in other.files}}


def decode(data: bytes) -> str:
    """Source bytes as text for prompts, by their declared encoding; the rest shows replacement marks."""
    data = data.removeprefix(BOM)
    return data.decode(declared_encoding(data) or "utf-8", "replace")
