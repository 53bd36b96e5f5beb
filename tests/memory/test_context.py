from __future__ import annotations

from agentforge.core.retrieval import Symbol
from agentforge.memory.context import estimated_tokens, fit_symbols, render_symbol


def symbol(name: str, start: int, end: int, width: int = 40) -> Symbol:
    text = "\n".join("x" * width for _ in range(start, end + 1))
    return Symbol(path="a.py", name=name, kind="function", start_line=start, end_line=end, text=text)


def test_symbols_are_taken_whole_in_order_until_the_budget_is_spent() -> None:
    small, huge, other = symbol("small", 1, 2), symbol("huge", 10, 500), symbol("other", 600, 602)
    budget = estimated_tokens(render_symbol(small)) + estimated_tokens(render_symbol(other))
    assert fit_symbols([small, huge, other], budget) == (small, other)
    assert fit_symbols([small, huge, other], budget - 1) == (small,)
    assert fit_symbols([small], 0) == ()


def test_a_method_inside_a_chosen_class_is_not_repeated() -> None:
    whole, method = symbol("Class", 1, 20), symbol("Class.method", 5, 9)
    assert fit_symbols([whole, method], 10_000) == (whole,)
    assert fit_symbols([method, whole], 10_000) == (method, whole)


def test_a_rendered_symbol_says_where_it_is() -> None:
    assert render_symbol(symbol("f", 3, 3, 2)) == "### a.py:3-3 (function f)\nxx\n"
