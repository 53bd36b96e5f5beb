"""The deterministic pass over every program of a relay: no fences, prose, comments; a whole shell (MARS).

It never touches what a program does; where it cannot read a program it leaves it alone.
"""

from __future__ import annotations

import io
import re
import tokenize

from agentforge.agents.extract import blocks_in, parse_python, python_module

_CPP_INFO = frozenset({"", "cpp", "c++", "cc", "cxx", "c"})
_CPP_PIECES = re.compile(
    r'(?P<raw>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")'
    r'|(?P<text>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<line>//(?:[^\n\\]|\\.)*)|(?P<block>/\*.*?\*/)",
    re.DOTALL,
)
_SHELL = "#include <bits/stdc++.h>\nusing namespace std;\n"


def sanitize_program(text: str, language: str) -> str:
    """The program in `text`, "" where there is none."""
    code = _cpp(text) if language == "cpp" else _python(text)
    return f"{code.rstrip()}\n" if code.strip() else ""


def _python(text: str) -> str:
    code = text if parse_python(text) is not None and "```" not in text else python_module(text) or ""
    if not code and not blocks_in(text):
        code = text
    return without_python_comments(code or _largest_block(text, frozenset({"", "python", "py", "python3"})))


def _cpp(text: str) -> str:
    code = without_cpp_comments(_largest_block(text, _CPP_INFO) or ("" if "```" in text else text))
    return f"{_SHELL}{code}" if code.strip() and not re.search(r"^\s*#\s*include\b", code, re.M) else code


def _largest_block(text: str, infos: frozenset[str]) -> str:
    blocks = [body for info, body in blocks_in(text) if info.lower() in infos]
    return max(blocks, key=len, default="")


def without_python_comments(code: str) -> str:
    """`code` with its comments gone, the same tokens otherwise; as it is where it cannot be read."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return code
    lines = code.splitlines(keepends=True)
    for token in reversed([token for token in tokens if token.type == tokenize.COMMENT]):
        row, column = token.start
        line, end = lines[row - 1], lines[row - 1][token.end[1] :]
        kept = line[:column].rstrip()
        lines[row - 1] = f"{kept}{end}" if kept else ""
    return "".join(lines)


def without_cpp_comments(code: str) -> str:
    """`code` with each comment replaced by what separates as well as it: a blank, or nothing before an end
    of line."""

    def kept(found: re.Match[str]) -> str:
        if found["line"] is not None:
            return ""
        return " " if found["block"] is not None else found[0]

    lines = _CPP_PIECES.sub(kept, code).split("\n")
    return "\n".join(line.rstrip() for line in lines)
