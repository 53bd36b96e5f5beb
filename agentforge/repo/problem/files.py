"""The small repository that a problem becomes: stub, statement, tests from its examples."""

from __future__ import annotations

from importlib import resources

from agentforge.core.problem import Example, Judge, Problem
from agentforge.core.task import Issue
from agentforge.core.tree import Tree, TreeFile

EXAMPLES = "tests/test_examples.py"
SMOKE = "tests/test_smoke.py"
HIDDEN = "tests/test_hidden.py"
CHECK = "tests/agentforge_check.py"
DEFAULT_TIME_S = 10.0
_STDIO_STUB = {
    "python": "# Reads standard input, writes standard output.\nraise NotImplementedError\n",
    "cpp": "// Reads standard input, writes standard output.\nint main() { return 1; }\n",
}
# The solution's names first, so that none of them can take the place of what judges it.
_NAMES = "import agentforge_check\n\nglobals().update(agentforge_check.names(__file__))"


def problem_tree(problem: Problem) -> Tree:
    """What the workflow gets. It holds no hidden test."""
    files = {
        "README.md": f"# {problem.title}\n\n{problem.statement.rstrip()}\n",
        "pytest.ini": "[pytest]\npythonpath = .\naddopts = -p no:cacheprovider\n",
        problem.program_path: problem.stub or _STDIO_STUB[problem.language],
        CHECK: check_module(),
        SMOKE: smoke_module(),
    }
    if problem.examples:
        files[EXAMPLES] = checks_module(problem, problem.examples, "example")
    return Tree({path: TreeFile(text.encode()) for path, text in sorted(files.items())})


def judge_tree(problem: Problem, judge: Judge, program: str) -> Tree:
    """The program beside the hidden tests alone, never seen by a workflow."""
    base = problem_tree(problem)
    tests = hidden_module(problem, judge)
    return base.with_changes(
        {
            EXAMPLES: None,
            SMOKE: None,
            problem.program_path: TreeFile(program.encode("utf-8", "surrogatepass")),
            HIDDEN: TreeFile(tests.encode()),
        }
    )


def problem_issue(problem: Problem) -> Issue:
    """The statement as an issue: what is to be written, and where."""
    if problem.kind == "stdio":
        task = (
            f"Write the program in `{problem.program_path}`: it reads standard input and prints the answer."
        )
    else:
        task = f"Implement the {problem.kind} `{problem.entry_point}` in `{problem.program_path}`."
    shown = "\n".join(line for example in problem.examples[:5] for line in _shown(problem, example))
    text = f"{task}\n\n{problem.statement.strip()}\n"
    return Issue(
        text=f"{text}\nExamples:\n{shown}\n" if shown else text, title=problem.title, source="problem"
    )


def _shown(problem: Problem, example: Example) -> list[str]:
    if problem.kind == "stdio":
        return ["Input:", example.stdin.rstrip(), "Output:", example.expected.rstrip()]
    return [*(f">>> {line}" for line in example.setup), f">>> {example.call}", example.expected]


def checks_module(problem: Problem, checks: tuple[Example, ...], word: str) -> str:
    """A test module with one test for each check; the failing assert shows call, expected and got."""
    if problem.kind == "stdio":
        head = ["from agentforge_check import printed, run"]
        tests = [_stdio_test(problem, check, f"test_{word}_{n}") for n, check in enumerate(checks, 1)]
    else:
        head = [_NAMES, "from agentforge_check import entry, exactly  # noqa: E402", ""]
        head.append(f"{problem.entry_point} = entry(__file__, {problem.entry_point!r})")
        tests = [_call_test(check, f"test_{word}_{n}") for n, check in enumerate(checks, 1)]
    return "\n".join(head) + "\n" + "".join(f"\n\n{test}\n" for test in tests)


def _call_test(check: Example, name: str) -> str:
    options = [f", tolerance={check.tolerance!r}"] if check.tolerance != Example().tolerance else []
    options += [", loose=True"] if check.loose else []
    options += [", unordered=True"] if check.unordered else []
    body = [f"def {name}():", f"    expected = exactly({_value(check.expected)}{''.join(options)})"]
    body += [f"    {line}" for source in check.setup for line in source.split("\n")]
    return "\n".join([*body, f"    assert expected == {check.call}"])


def _value(text: str) -> str:
    """The literal; `nan` and `inf` have no literal of their own."""
    return {"nan": "float('nan')", "inf": "float('inf')", "-inf": "float('-inf')"}.get(text, text)


def _stdio_test(problem: Problem, check: Example, name: str) -> str:
    tolerance = f", tolerance={check.tolerance!r}" if check.tolerance != Example().tolerance else ""
    time_s = problem.limits.time_s or DEFAULT_TIME_S
    return "\n".join(
        [
            f"def {name}():",
            f"    expected = printed({check.expected!r}{tolerance})",
            f"    assert expected == run(__file__, {check.stdin!r}, {time_s!r})",
        ]
    )


def hidden_module(problem: Problem, judge: Judge) -> str:
    """The judge's test module: its checks, or the record's own code over the solution's names."""
    if not judge.code:
        return checks_module(problem, judge.checks, "hidden")
    head = f"{_NAMES}\nfrom agentforge_check import entry  # noqa: E402\n\n"
    if not judge.check:
        return f"{head}{judge.code}\n"
    call = f"def test_official():\n    {judge.check}(entry(__file__, {problem.entry_point!r}))\n"
    return f"{head}{judge.code}\n\n\n{call}"


def smoke_module() -> str:
    return "from agentforge_check import loads\n\n\ndef test_program_loads():\n    assert loads(__file__)\n"


def check_module() -> str:
    """The text of what stands beside the tests and compares for them."""
    folder = resources.files("agentforge") / "repo" / "problem" / "inside"
    return (folder / "agentforge_check.py").read_text("utf-8")
