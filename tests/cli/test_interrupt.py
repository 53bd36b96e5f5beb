"""One signal cancels and cleans up, two end at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

WORK = """
import asyncio, sys
from agentforge.cli.failures import guarded
from agentforge.cli.interrupt import run_interruptible

async def work():
    try:
        print('ready', flush=True)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print('cancelled', flush=True)
        {on_cancel}

sys.exit(guarded(lambda: run_interruptible(work())))
"""


def start(on_cancel: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", WORK.format(on_cancel=on_cancel)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_cancels_and_ends_with_130(number: int) -> None:
    child = start("raise")
    os.kill(child.pid, number)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert out == "cancelled\n"
    assert "interrupting" in err
    assert "Traceback" not in err


def test_work_that_ends_in_an_orderly_way_keeps_its_result() -> None:
    child = start("return 5")
    os.kill(child.pid, signal.SIGTERM)
    child.communicate(timeout=30)
    assert child.returncode == 5


def test_the_second_signal_ends_at_once() -> None:
    child = start("await asyncio.sleep(60)")
    os.kill(child.pid, signal.SIGINT)
    assert child.stdout is not None
    assert child.stdout.readline() == "cancelled\n"
    os.kill(child.pid, signal.SIGINT)
    child.communicate(timeout=10)
    assert child.returncode == 130
