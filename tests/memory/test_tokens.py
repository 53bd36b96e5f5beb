from __future__ import annotations

import pytest

from agentforge.memory.tokens import code_tokens, split_identifier, stem


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("getHTTPResponse", ["http", "response", "gethttpresponse"]),
        ("parse_url", ["parse", "url", "parse_url"]),
        ("__init__", ["init"]),
        ("self.fields", ["field"]),
        ("the value of return", ["value"]),
        ("utf8 x2", ["utf", "utf8", "x2"]),
        ("größe", ["größe"]),
        ("error 404", ["error", "404"]),
    ],
)
def test_identifiers_stand_whole_beside_their_parts(text: str, tokens: list[str]) -> None:
    assert [token for token in code_tokens(text) if token in tokens] == tokens


def test_stop_words_and_single_letters_are_left_out() -> None:
    assert code_tokens("def a(self): return the x") == []


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("queries", "query"),
        ("classes", "class"),
        ("fields", "field"),
        ("status", "status"),
        ("basis", "basis"),
        ("class", "class"),
        ("bus", "bus"),
        ("indexes", "index"),
    ],
)
def test_only_plurals_are_stemmed(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


def test_split_identifier_keeps_acronyms_together() -> None:
    assert split_identifier("XMLHttpRequest_v2") == ("XML", "Http", "Request", "v", "2")


def test_an_endless_word_is_no_token() -> None:
    assert code_tokens("a" * 100_000) == []
