"""Code-aware tokens: every identifier whole, and beside it its camelCase and snake_case parts."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[^\W\d]\w*|\d+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]|\d+|[^\W\d_A-Za-z]+")
_MAX_WORD = 80


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENGLISH_STOP_WORDS = _words(
    "a about above after again against all also am an and any are as at be because been before being below "
    "between both but by can cannot could did do does doing down during each few for from further get gets "
    "got had has have having he her here hers him his how i if in instead into is it its just like me more "
    "most my no nor not now of off on once only or other our out over own same she should so some such than "
    "that the their them then there these they this those through to too under until up us use used using "
    "very was we were what when where which while who why will with would you your"
)
CODE_STOP_WORDS = _words(
    "class def elif else except finally lambda pass raise return self cls try yield import none true false "
    "async await assert break continue del global nonlocal print"
)
STOP_WORDS = ENGLISH_STOP_WORDS | CODE_STOP_WORDS


def stem(word: str) -> str:
    """Light plural stemming: queries -> query, classes -> class, fields -> field; nothing cleverer."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1]


def split_identifier(name: str) -> tuple[str, ...]:
    """The parts of an identifier as written: getHTTPResponse_code -> get, HTTP, Response, code."""
    return tuple(_PART.findall(name))


@lru_cache(maxsize=200_000)
def word_tokens(word: str) -> tuple[str, ...]:
    """Tokens of one identifier or number: stemmed parts, then the whole name where it has several parts."""
    if len(word) > _MAX_WORD:
        return ()
    parts = [part.lower() for part in split_identifier(word)]
    tokens = [stem(part) for part in parts if _worth_keeping(part)]
    whole = word.lower().strip("_")
    if len(parts) > 1 and _worth_keeping(whole):
        tokens.append(whole)
    return tuple(tokens)


def _worth_keeping(word: str) -> bool:
    return len(word) > 1 and word not in STOP_WORDS


def code_tokens(text: str) -> list[str]:
    """All tokens of `text` in order, stop words left out; the same for code, issues and paths."""
    tokens: list[str] = []
    for word in _WORD.findall(text):
        tokens.extend(word_tokens(word))
    return tokens
