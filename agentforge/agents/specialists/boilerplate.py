"""When the infrastructure fixer is called, and what it may touch (MARS, 3 and appendix E)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentforge.core.report import TestReport

_EXCEPTIONS = frozenset(
    {"ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError", "EOFError"}
)
_SIGNS = re.compile(
    r"No such file or directory|was not declared in this scope|undefined reference to .?main|"
    r"is not a member of .?std|narrowing conversion|overflow in (?:constant|conversion)|"
    r"integer constant is too large|does not compile|"
    r"(?:Import|ModuleNotFound|Syntax|Indentation|Tab|EOF)Error\b|name '\w+' is not defined"
)
_PYTHON = re.compile(
    r"^(?:import |from [\w.]+ import |if __name__ ==|main\(\)$|sys\.setrecursionlimit|input = |"
    r"def main\(|(?:[\w, ]+ = )?.*\b(?:input\(|sys\.stdin|stdin\.|readline\()|(?:print|sys\.stdout\.write)\()"
)
_CPP = re.compile(
    r"^(?:#|using |typedef |int main\(|return 0;$|ios\b|ios_base\b|std::ios|cin\b|std::cin|cout\b|std::cout|"
    r"scanf\b|printf\b|getline\b|std::getline)"
)
_WIDTHS = re.compile(
    r"\b(?:(?:unsigned|signed|long|short)\s+)*(?:int|long|short|unsigned)\b|\bu?int(?:32|64)_t\b"
)


def boilerplate_failure(report: TestReport) -> str:
    """The sign of a failure around a solution and not in it, "" where there is none.

    Imports and includes, the entry point, reading beyond the input, integer widths.
    """
    for failure in report.failures.values():
        if failure.exception.rpartition(".")[2] in _EXCEPTIONS:
            return failure.exception
        if found := _SIGNS.search(failure.message):
            return found[0]
    if report.outcomes and not report.failed:
        return ""
    found = _SIGNS.search(report.output)
    return found[0] if found else ""


def boilerplate_only(before: str, after: str, language: str) -> bool:
    """Whether two programs differ in boilerplate alone: the same other lines in the same order.

    In C++ a wider or narrower integer type is boilerplate, too.
    """
    return list(_logic(before, language)) == list(_logic(after, language))


def _logic(code: str, language: str) -> Iterator[str]:
    for line in code.split("\n"):
        text = " ".join(line.split())
        if language == "cpp":
            text = _WIDTHS.sub("INT", text)
            if text.strip("{}; ") and not (_CPP.match(text) or text.startswith("INT main(")):
                yield text
        elif text and not _PYTHON.match(text):
            yield text
