"""Batches in the real sandbox: no candidate stops the others or touches their verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentforge.core.ports import Environment
from agentforge.core.tree import Tree
from agentforge.sandbox import DockerSandbox
from agentforge.search.batch import Plan, Verdict, compare, observe, screen, split
from agentforge.search.source import Edit, Source
from tests.search.conftest import make_tree

pytestmark = pytest.mark.docker

MODULE = """import functools
import os
import signal
import sys
import time

LIMIT = 3


def answer(x):
    return x


@functools.lru_cache(maxsize=None)
def cached(x):
    return x + 1


class Base:
    def get(self):
        return 1


class Child(Base):
    def get(self):
        return super().get() + 2


def below(x):
    return x < LIMIT
"""
TESTS = """import sys
from module import Child, answer, below, cached


def test_answer():
    assert answer(41) == 42


def test_cached():
    assert cached(1) == 3


def test_child():
    assert Child().get() == 2


def test_below():
    assert below(3)


def test_kept():
    assert answer(0) is not None
"""
FILES = ("test_module.py",)


def tree() -> Tree:
    return make_tree({"module.py": MODULE, "test_module.py": TESTS})


def edit(old: str, new: str) -> Edit:
    at = MODULE.index(old)
    return Edit("module.py", at, at + len(old), new.encode(), "test", 1.0, MODULE[:at].count("\n") + 1)


async def judge(
    sandbox: DockerSandbox, environment: Environment, edits: list[Edit], target: str, keep: str = "test_kept"
) -> list[Verdict]:
    sources = {"module.py": Source("module.py", MODULE.encode())}
    plan = Plan(FILES, (f"test_module.py::{target}",), (f"test_module.py::{keep}",), 0.3, 0.2, grace_s=60.0)
    return await screen(sandbox, environment, tree(), sources, edits, plan, 150.0)


EVERY_PIPE = """for number in range(3, 64):
        try:
            os.write(number, b'%s\\n')
        except OSError:
            pass
    os._exit(0)"""
HOSTILE = {
    "hang": "while True:\n        pass",
    "sleep": "time.sleep(60)",
    "exit": "os._exit(0)",
    "system exit": "sys.exit(0)",
    "fork": "[os.fork() for _ in range(4)]\n    time.sleep(60)",
    "fork bomb": "while True:\n        os.fork()",
    "daemon": "os.setsid() if os.fork() == 0 else None\n    time.sleep(60)",
    "flood": "while True:\n        os.write(1, b'x' * 65536)",
    "flood of text": "while True:\n        print('x' * 65536)",
    "memory": "x = [b'x' * 1000000 for _ in range(10 ** 6)]",
    "recursion": "return answer(x)",
    "segfault": "import ctypes\n    ctypes.string_at(0)",
    "forged line": 'print(\'{"v": "plausible", "n": 9}\', flush=True)\n    os._exit(0)',
    "verdict on another": EVERY_PIPE % '{"v": "failed", "id": 0}',
    "verdict without a word": EVERY_PIPE % '{"id": 0}',
    "ignores signals": "signal.signal(signal.SIGPROF, signal.SIG_IGN)\n    while True:\n        pass",
}


async def test_hostile_candidates_never_stop_the_batch(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    hostile = [edit("return x\n", f"{body}\n") for body in HOSTILE.values()]
    good = edit("return x\n", "return x + 1\n")
    verdicts = await judge(sandbox, environment, [good, *hostile, good], "test_answer")
    assert [v.edit for v in verdicts] == [good, *hostile, good]
    assert [verdicts[0].verdict, verdicts[-1].verdict] == ["plausible", "plausible"]
    ends = dict(zip(HOSTILE, (v.verdict for v in verdicts[1:-1]), strict=True))
    assert "plausible" not in ends.values(), ends
    # On a busy machine the supervisor may find the child gone before it has noted the timeout.
    assert {ends["hang"], ends["sleep"], ends["ignores signals"]} <= {"timeout", "crash"}
    assert ends["segfault"] == "crash"


async def test_one_that_kills_the_server_costs_itself_alone(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    killer = edit("return x\n", "os.kill(os.getppid(), signal.SIGKILL)\n    time.sleep(9)\n")
    good = edit("return x\n", "return x + 1\n")
    verdicts = await judge(sandbox, environment, [good, killer, good], "test_answer")
    assert [v.verdict for v in verdicts] == ["plausible", "crash", "plausible"]


async def test_candidates_do_not_see_each_other(sandbox: DockerSandbox, environment: Environment) -> None:
    leave = edit("return x\n", "sys.modules['left'] = 1; return x\n")
    find = edit("return x\n", "return x + 1 if 'left' in sys.modules else x\n")
    verdicts = await judge(sandbox, environment, [leave, find], "test_answer")
    assert [v.verdict for v in verdicts] == ["failed", "failed"]


async def test_decorated_functions_and_super_are_patched(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    cached = await judge(sandbox, environment, [edit("return x + 1", "return x + 2")], "test_cached")
    child = await judge(sandbox, environment, [edit("get() + 2", "get() + 1")], "test_child")
    assert [v.verdict for v in (*cached, *child)] == ["plausible", "plausible"]


async def test_an_assignment_at_the_top_level_is_run_again_in_the_loaded_module(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    values = ("LIMIT = 2", "LIMIT = 4", "LIMIT = 1 // 0", "LIMIT = 4 if below else [][0]")
    edits = [edit("= 3", value.removeprefix("LIMIT ")) for value in values]
    edits = [replace(e, start=e.start + 2, new=e.new.removeprefix(b"= ")) for e in edits]
    hot, cold = split({"module.py": Source("module.py", MODULE.encode())}, edits, frozenset())
    assert (len(hot), len(cold)) == (4, 0)
    verdicts = await judge(sandbox, environment, edits, "test_below")
    assert [v.verdict for v in verdicts] == ["failed", "plausible", "failed", "plausible"]
    assert verdicts[2].why.startswith("ZeroDivisionError")


async def test_an_edit_outside_functions_is_judged_by_a_fresh_import(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    edits = [edit("LIMIT = 3", "LIMIT = 2"), edit("LIMIT = 3", "LIMIT = 4"), edit("LIMIT = 3", "LIMIT = (")]
    hot, cold = split({"module.py": Source("module.py", MODULE.encode())}, edits, frozenset())
    assert (len(hot), len(cold)) == (0, 3)
    verdicts = await judge(sandbox, environment, edits, "test_below")
    assert [v.verdict for v in verdicts] == ["failed", "plausible", "no_targets"]


async def test_a_candidate_that_breaks_a_neighbour_is_not_plausible(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    edits = [edit("return x\n", "return 42 if x else None\n"), edit("return x\n", "return 42\n")]
    verdicts = await judge(sandbox, environment, edits, "test_answer")
    assert [(v.verdict, v.test) for v in verdicts] == [
        ("broke", "test_module.py::test_kept"),
        ("plausible", ""),
    ]


async def test_results_in_passing_tests_are_compared_with_those_of_the_base(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    same, other = edit("return x\n", "return 42 if x else x\n"), edit("return x\n", "return x + 1\n")
    raises, cold = edit("return x\n", "raise SystemExit\n"), edit("LIMIT = 3", "LIMIT = 4")
    edits, sources = [same, other, raises, cold], {"module.py": Source("module.py", MODULE.encode())}
    plan = Plan(FILES, ("test_module.py::test_answer",), ("test_module.py::test_kept",), 0.5)
    found = await compare(sandbox, environment, tree(), sources, edits, plan, 20.0)
    assert found == {0: 1.0, 1: 0.0, 2: 0.0}


OBSERVED = """def f(x):
    if x:
        return 1 / 0
    return 2


def g():
    while True:
        pass
"""
TEST_OBSERVED = """from m import f, g


def test_f():
    f(1)


def test_ok():
    assert f(0) == 2


def test_g():
    g()
"""


async def test_observation_tells_outcomes_lines_and_frames(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    seen = await observe(
        sandbox,
        environment,
        make_tree({"m.py": OBSERVED, "test_m.py": TEST_OBSERVED}),
        files=["test_m.py"],
        targets=["test_m.py::test_f"],
        guards=["test_m.py::test_g"],
        budget_s=20,
    )
    by_name = {o.test: o for o in seen.observations}
    failed, hung = by_name["test_m.py::test_f"], by_name["test_m.py::test_g"]
    assert (failed.outcome, failed.exception) == ("failed", "ZeroDivisionError")
    assert failed.frames[-1] == ("m.py", 3, "f")
    assert failed.lines["m.py"] == (1, 2, 3)
    assert by_name["test_m.py::test_ok"].lines["m.py"] == (1, 2, 4)
    assert hung.outcome == "timeout"
    assert set(hung.lines["m.py"]) >= {8, 9}
    assert [o.test[-6:] for o in seen.observations] == ["test_f", "test_g", "est_ok"], "targets, guards, rest"


async def test_modules_that_tests_import_late_are_patched_too(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    tests = TESTS.replace("from module import Child, answer, below, cached\n", "")
    tests = tests.replace("    assert answer", "    from module import answer\n\n    assert answer")
    late = make_tree({"module.py": MODULE, "test_module.py": tests})
    plan = Plan(FILES, ("test_module.py::test_answer",), (), 0.3)
    good = edit("return x\n", "return x + 1\n")
    sources = {"module.py": Source("module.py", MODULE.encode())}
    assert [v.verdict for v in await screen(sandbox, environment, late, sources, [good], plan, 20.0)] == [
        "plausible"
    ]


async def test_a_batch_goes_on_for_so_many_candidates_after_a_plausible_one(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    good, bad = edit("return x\n", "return x + 1\n"), edit("return x\n", "return x + 7\n")
    plan = Plan(FILES, ("test_module.py::test_answer",), (), 0.3, grace_count=2, grace_s=60.0)
    sources = {"module.py": Source("module.py", MODULE.encode())}
    verdicts = await screen(sandbox, environment, tree(), sources, [bad, good, *[bad] * 5], plan, 40.0)
    assert [v.verdict for v in verdicts] == ["failed", "plausible", "failed", "failed"]
