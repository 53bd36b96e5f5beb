"""Records of public data sets as problems: HumanEval, MBPP, APPS, CodeContests, ClassEval, and our own shape.

What a record gives as tests becomes the hidden judge; the workflow sees the examples of the statement.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from agentforge.core.problem import Example, Judge, Problem, ProblemLimits, ProblemRecord
from agentforge.repo.problem.examples import call_examples, sample_examples

Row = Mapping[str, Any]


def human_eval(row: Row, number: int) -> ProblemRecord:
    """`prompt` is the stub as it stands: its imports and helpers belong to the program."""
    entry, prompt = str(row["entry_point"]), str(row["prompt"])
    statement = _docstring(f"{prompt}\n    pass\n", entry) or prompt
    problem = Problem(
        id=str(row.get("task_id", f"HumanEval/{number}")),
        title=f"{entry}: {_first_sentence(statement)}",
        statement=statement,
        entry_point=entry,
        stub=f"{prompt.rstrip()}\n    raise NotImplementedError\n",
        examples=call_examples(statement, entry),
        source="humaneval",
    )
    judge = Judge(code=str(row["test"]), check="check")
    return ProblemRecord(
        problem=problem, judge=judge, reference=prompt + str(row.get("canonical_solution", ""))
    )


def mbpp(row: Row, number: int) -> ProblemRecord:
    """The first of `test_list` is shown, since nothing else names the function; all of them judge."""
    tests = [str(test) for test in row["test_list"]]
    entry, arguments = _asserted_call(tests)
    statement = str(row.get("text") or row["prompt"])
    problem = Problem(
        id=f"MBPP/{row.get('task_id', number)}",
        title=f"{entry}: {_first_sentence(statement)}",
        statement=statement,
        entry_point=entry,
        stub=f"def {entry}({arguments}):\n    raise NotImplementedError\n",
        examples=call_examples(tests[0], entry)[:1],
        source="mbpp",
    )
    tests += [str(test) for test in row.get("challenge_test_list") or ()]
    setup = "\n".join(
        [*map(str, row.get("test_imports") or ()), str(row.get("test_setup_code") or "")]
    ).strip()
    bodies = [
        f"def test_{place}():\n" + "\n".join(f"    {line}" for line in test.split("\n"))
        for place, test in enumerate(tests, 1)
    ]
    alias = f"{entry} = entry(__file__, {entry!r})"
    code = "\n\n\n".join([*([setup] if setup else []), alias, *bodies])
    return ProblemRecord(problem=problem, judge=Judge(code=code), reference=str(row.get("code", "")))


def apps(row: Row, number: int) -> ProblemRecord:
    """Standard input and output, or calls where `input_output` names a function."""
    statement = str(row["question"])
    given = _loaded(row.get("input_output")) or {}
    solutions = _loaded(row.get("solutions")) or []
    inputs, outputs = given.get("inputs", []), given.get("outputs", [])
    name = given.get("fn_name")
    common: dict[str, Any] = {
        "id": f"APPS/{row.get('problem_id', row.get('id', number))}",
        "title": _first_sentence(statement),
        "statement": statement,
        "source": "apps",
    }
    reference = str(solutions[0]) if solutions else ""
    if not name:
        checks = tuple(
            Example(stdin=_lines(one), expected=_lines(two)) for one, two in zip(inputs, outputs, strict=True)
        )
        problem = Problem(**common, kind="stdio", examples=sample_examples(statement))
        return ProblemRecord(problem=problem, judge=Judge(checks=checks), reference=reference)
    checks = tuple(_fn_check(name, one, two) for one, two in zip(inputs, outputs, strict=True))
    arguments = (
        ", ".join(f"argument_{place}" for place in range(1, len(inputs[0]) + 1)) if inputs else "*arguments"
    )
    stub, kind = _starter(str(row.get("starter_code") or ""), name, arguments)
    problem = Problem(**common, entry_point=name, stub=stub, examples=call_examples(statement, name))
    if kind == "class":
        shim = f"def {name}(*arguments):\n    return Solution().{name}(*arguments)\n"
        reference = f"{reference}\n\n\n{shim}" if reference else ""
    return ProblemRecord(problem=problem, judge=Judge(checks=checks), reference=reference)


def _starter(code: str, name: str, arguments: str) -> tuple[str, str]:
    """(stub, kind): a starter function as it stands; a starter method becomes a function."""
    found = re.search(rf"def {re.escape(name)}\((.*?)\)", code, re.S)
    if found and "class Solution" not in code:
        return f"def {name}({found[1]}):\n    raise NotImplementedError\n", "function"
    kind = "class" if "class Solution" in code else "function"
    if found:
        plain = [piece.split(":")[0].split("=")[0].strip() for piece in found[1].split(",")]
        arguments = (
            ", ".join(piece for piece in plain if piece.isidentifier() and piece != "self") or arguments
        )
    return f"def {name}({arguments}):\n    raise NotImplementedError\n", kind


def _fn_check(name: str, arguments: Any, output: Any) -> Example:
    """JSON knows no tuples; an answer wrapped in a list of one is the answer itself, as APPS has it."""
    value = output[0] if isinstance(output, list) and len(output) == 1 else output
    call = f"{name}({', '.join(repr(argument) for argument in arguments)})"
    return Example(call=call, expected=repr(value), loose=True)


def code_contests(row: Row, number: int) -> ProblemRecord:
    """Public tests are examples; private and generated ones judge. Answers are compared as text."""
    public, hidden = _pairs(row.get("public_tests")), _pairs(row.get("private_tests"))
    limit = row.get("time_limit") or {}
    seconds = float(limit.get("seconds") or 0) + float(limit.get("nanos") or 0) / 1e9
    memory = int(row.get("memory_limit_bytes") or 0) // 2**20
    problem = Problem(
        id=str(row["name"]),
        title=str(row["name"]),
        statement=str(row["description"]),
        kind="stdio",
        examples=public,
        limits=ProblemLimits(time_s=seconds or None, memory_mb=memory or None),
        source="code_contests",
    )
    solutions = row.get("solutions") or {}
    known = zip(solutions.get("language", []), solutions.get("solution", []), strict=False)
    reference = next((str(text) for language, text in known if language in (3, "PYTHON3")), "")
    checks = (*hidden, *_pairs(row.get("generated_tests"))) or public
    return ProblemRecord(problem=problem, judge=Judge(checks=checks), reference=reference)


def _pairs(tests: Any) -> tuple[Example, ...]:
    tests = tests or {}
    pairs = zip(tests.get("input", []), tests.get("output", []), strict=True)
    return tuple(Example(stdin=str(one), expected=str(two)) for one, two in pairs)


def class_eval(row: Row, number: int) -> ProblemRecord:
    """The skeleton is the stub; the record's own unittest cases judge."""
    name, skeleton = str(row["class_name"]), str(row["skeleton"])
    imports = _joined(row.get("import_statement"))
    statement = (
        _joined(row.get("class_description")) or _docstring(skeleton, name) or f"Complete the class {name}."
    )
    stub = skeleton if imports in skeleton else f"{imports}\n\n{skeleton}"
    problem = Problem(
        id=str(row.get("task_id", f"ClassEval/{number}")),
        title=f"{name}: {_first_sentence(statement)}",
        statement=statement,
        kind="class",
        entry_point=name,
        stub=stub.rstrip() + "\n",
        examples=call_examples(_dedented(skeleton), name),
        source="class_eval",
    )
    alias = f"{name} = entry(__file__, {name!r})"
    judge = Judge(code=f"import unittest\n{imports}\n\n{alias}\n\n\n{row['test']}")
    code = str(row.get("solution_code", ""))
    return ProblemRecord(problem=problem, judge=judge, reference=f"{imports}\n\n{code}" if code else "")


def read_own(row: Row, record: ProblemRecord) -> ProblemRecord:
    """Our own shape: `examples` are shown, `tests` judge, `limits`, `language`, `reference` may be given."""
    problem = record.problem
    examples = tuple(_own_check(item) for item in row.get("examples") or ()) or problem.examples
    limits = ProblemLimits.model_validate(row.get("limits") or {})
    changes: dict[str, Any] = {"examples": examples, "limits": limits, "source": "json"}
    changes |= {key: str(row[key]) for key in ("stub", "entry_point") if row.get(key)}
    judge = Judge(checks=tuple(_own_check(item) for item in row.get("tests") or ()))
    reference = str(row.get("reference", ""))
    return ProblemRecord(problem=problem.model_copy(update=changes), judge=judge, reference=reference)


def _own_check(item: Row) -> Example:
    kept = {
        key: item[key] for key in ("setup", "description", "unordered", "tolerance", "loose") if key in item
    }
    if "call" in item:
        expected = item["expected"]
        loose = {"loose": True} if not isinstance(expected, str) else {}
        text = expected if isinstance(expected, str) else repr(expected)
        return Example(call=str(item["call"]), expected=text, **(loose | kept))
    stdin = str(item["input"] if "input" in item else item["stdin"])
    return Example(
        stdin=stdin, expected=str(item["output"] if "output" in item else item["expected"]), **kept
    )


def _has(*keys: str) -> Callable[[Row], bool]:
    return lambda row: all(key in row for key in keys)


SHAPES: tuple[tuple[Callable[[Row], bool], Callable[[Row, int], ProblemRecord]], ...] = (
    (_has("prompt", "entry_point", "test"), human_eval),
    (_has("test_list"), mbpp),
    (_has("question", "input_output"), apps),
    (_has("description", "public_tests"), code_contests),
    (_has("skeleton", "class_name", "test"), class_eval),
)


def _docstring(code: str, name: str) -> str:
    try:
        body = ast.parse(code).body
    except SyntaxError:
        return ""
    found = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
    return (ast.get_docstring(found[-1]) or "") if found else ""


def _asserted_call(tests: list[str]) -> tuple[str, str]:
    """(name, arguments) of the function that the asserts call: the outermost call that is no builtin."""
    import builtins

    for test in tests:
        for node in ast.walk(ast.parse(test)):
            called = node.func if isinstance(node, ast.Call) else None
            if (
                isinstance(node, ast.Call)
                and isinstance(called, ast.Name)
                and not hasattr(builtins, called.id)
            ):
                return called.id, ", ".join(f"argument_{n}" for n in range(1, len(node.args) + 1))
    raise ValueError("no assert calls a function")


def _first_sentence(text: str) -> str:
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    return re.split(r"(?<=[.?!])\s", line)[0][:100]


def _loaded(value: Any) -> Any:
    """APPS keeps JSON inside JSON."""
    return json.loads(value) if isinstance(value, str) and value.strip() else value


def _lines(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _joined(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _dedented(code: str) -> str:
    return "\n".join(line.strip() for line in code.split("\n"))
