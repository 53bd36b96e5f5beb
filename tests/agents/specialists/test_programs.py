"""The sanitizer and what the infrastructure fixer may touch."""

from __future__ import annotations

import ast

import pytest

from agentforge.agents.specialists.boilerplate import boilerplate_failure, boilerplate_only
from agentforge.agents.specialists.sanitize import sanitize_program
from agentforge.core.report import Outcome, TestFailure, TestReport

PROGRAM = "n = int(input())\nprint(n * 2)  # twice\n"


@pytest.mark.parametrize(
    "text",
    [
        PROGRAM,
        f"```python\n{PROGRAM}```",
        f"Sure, here:\n\n```py\n{PROGRAM}```\nIt doubles.",
        f"# a\n{PROGRAM}",
    ],
)
def test_ma_r10_fences_prose_and_comments_go(text):
    assert sanitize_program(text, "python") == "n = int(input())\nprint(n * 2)\n"


def test_ma_r10_what_only_looks_like_a_comment_stays():
    code = "s = '# no'\nt = '''\n# no\n'''\n"
    assert sanitize_program(code, "python") == code
    cpp = '#include <x>\nint main() { const char* s = "// no"; char c = \'"\'; auto r = R"(/* no */)"; }\n'
    assert sanitize_program(cpp, "cpp") == cpp


def test_ma_r10_cpp_gets_a_shell_and_loses_comments():
    code = sanitize_program("```cpp\nint main() {\n  // one\n  int a; /* two */ return 0;\n}\n```", "cpp")
    assert code.startswith("#include <bits/stdc++.h>\nusing namespace std;\n")
    assert "one" not in code
    assert "two" not in code
    assert "return 0;" in code


def test_a_python_program_keeps_its_meaning():
    code = sanitize_program("def f(x):  # c\n    # d\n    return x\n", "python")
    assert ast.dump(ast.parse(code)) == ast.dump(ast.parse("def f(x):\n    return x\n"))


def test_text_without_a_program_is_none():
    assert sanitize_program("```json\n{}\n```", "cpp") == ""
    assert sanitize_program("", "python") == ""


def report(exception: str, message: str = "") -> TestReport:
    return TestReport(
        outcomes={"t::a": Outcome.FAILED},
        failures={"t::a": TestFailure(exception=exception, message=message)},
        collected=1,
    )


def test_ma_r10_the_fixer_is_called_for_boilerplate_alone():
    assert boilerplate_failure(report("ModuleNotFoundError"))
    assert boilerplate_failure(
        report("AssertionError", "solution.cpp does not compile:\n'x' was not declared")
    )
    assert boilerplate_failure(report("AssertionError", "EOFError: EOF when reading a line"))
    assert not boilerplate_failure(report("AssertionError", "expected 3, got 4"))
    assert not boilerplate_failure(TestReport(outcomes={"t::a": Outcome.PASSED}, collected=1))


def test_ma_r10_the_fixer_may_change_boilerplate_alone():
    logic = "def f(n):\n    return n * 2\n"
    assert boilerplate_only(
        f"{logic}print(f(int(input())))\n", f"import sys\n{logic}print(f(int(sys.stdin.read())))\n", "python"
    )
    assert not boilerplate_only(logic, logic.replace("* 2", "* 3"), "python")
    cpp = "#include <iostream>\nint main() {\n  int s = 0;\n  s += a * b;\n}\n"
    assert boilerplate_only(cpp, cpp.replace("int s", "long long s"), "cpp")
    assert boilerplate_only(cpp, f"#include <vector>\n{cpp}", "cpp")
    assert not boilerplate_only(cpp, cpp.replace("a * b", "a + b"), "cpp")
