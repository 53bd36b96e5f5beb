"""Fit retrieved symbols into a token budget, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable

from agentforge.core.retrieval import Symbol

CHARS_PER_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """A quarter of the characters, rounded up: good enough to stay within a budget of thousands."""
    return -(-len(text) // CHARS_PER_TOKEN)


def render_symbol(symbol: Symbol) -> str:
    """A heading with place and name, then the exact lines."""
    place = f"{symbol.path}:{symbol.start_line}-{symbol.end_line}"
    return f"### {place} ({symbol.kind} {symbol.name})\n{symbol.text}\n"


def fit_symbols(symbols: Iterable[Symbol], max_tokens: int) -> tuple[Symbol, ...]:
    """The best symbols that fit, in their order; one too large is passed over for the next.

    A symbol that lies inside one already chosen is left out, as its lines are there.
    """
    chosen: list[Symbol] = []
    left = max_tokens
    for symbol in symbols:
        cost = estimated_tokens(render_symbol(symbol))
        if cost <= left and not any(_inside(symbol, other) for other in chosen):
            chosen.append(symbol)
            left -= cost
    return tuple(chosen)


def _inside(symbol: Symbol, other: Symbol) -> bool:
    return (
        symbol.path == other.path
        and other.start_line <= symbol.start_line
        and symbol.end_line <= other.end_line
    )
