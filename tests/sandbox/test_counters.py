"""The kernel's counters, read from the host's view of a cgroup: both versions, and what is not ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge.sandbox import counters
from agentforge.sandbox.counters import Counters

ID = "c0ffee" * 10


def machine(root: Path, membership: str, files: dict[str, str]) -> dict[str, Path]:
    """A /proc and a /sys/fs/cgroup with one process, number 7."""
    entry = root / "proc" / "7" / "cgroup"
    entry.parent.mkdir(parents=True)
    entry.write_text(membership)
    for name, text in files.items():
        path = root / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {"proc": root / "proc", "cgroups": root / "cgroup"}


def test_version_1(tmp_path: Path) -> None:
    places = machine(
        tmp_path,
        f"9:memory:/docker/{ID}\n4:pids:/docker/{ID}\n1:name=systemd:/docker/{ID}\n",
        {
            f"memory/docker/{ID}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
            f"pids/docker/{ID}/pids.events": "max 5\n",
        },
    )
    assert counters.of_process(7, ID, **places) == Counters(oom_kills=2, pids_refused=5)


def test_version_2(tmp_path: Path) -> None:
    scope = f"system.slice/docker-{ID}.scope"
    places = machine(
        tmp_path,
        f"0::/{scope}\n",
        {
            f"{scope}/memory.events": "low 0\nhigh 0\nmax 31\noom 3\noom_kill 1\n",
            f"{scope}/pids.events": "max 4\n",
        },
    )
    # `max` of memory.events counts reclaims, not refused forks.
    assert counters.of_process(7, ID, **places) == Counters(oom_kills=1, pids_refused=4)


@pytest.mark.parametrize(
    "membership",
    ["", "0::/user.slice\n", f"0::/../{ID}\n", f"0::/a b/{ID}\n", "garbage", f"0::/{'f' * 60}\n"],
)
def test_a_process_that_is_not_the_container_is_not_read(tmp_path: Path, membership: str) -> None:
    places = machine(tmp_path, membership, {"memory.events": "oom_kill 9\n"})
    assert counters.of_process(7, ID, **places) is None


def test_the_first_source_that_knows_is_believed() -> None:
    known = Counters(oom_kills=1)
    assert counters.first_known(lambda: None, lambda: known, lambda: Counters()) is known
    assert counters.first_known(lambda: None) == Counters()
    assert counters.of_events([{"Action": "oom"}, {"Action": "die"}]) == Counters(oom_kills=1)
    assert counters.of_events([]) is None
