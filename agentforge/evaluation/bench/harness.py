"""Which judge it was: a hash over the code that decides, and the version around it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib import resources

from agentforge import __version__

_DECIDING = (
    "evaluation/judge.py",
    "evaluation/suites/quixbugs.py",
    "repo/problem/files.py",
    "repo/problem/inside/agentforge_check.py",
    "sandbox/inside/report_plugin.py",
    "sandbox/inside/launch.py",
    "sandbox/verdict.py",
)


@cache
def judge_hash() -> str:
    """`agentforge VERSION, judge HASH`."""
    return f"agentforge {__version__}, judge {_hash(_DECIDING)}"


def _hash(paths: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update((resources.files("agentforge") / path).read_bytes())
    return digest.hexdigest()[:12]
