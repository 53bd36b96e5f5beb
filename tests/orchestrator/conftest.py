"""Real git, real Docker, real ChromaDB; the model is scripted and speaks real HTTP."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agentforge.config.load import load_settings
from agentforge.config.settings import Settings
from agentforge.core.events import Event
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.service import run_fix

SHOP = {
    "shop/__init__.py": "",
    "shop/money.py": (
        '"""Amounts in cents."""\n\n\ndef with_tax(cents, percent):\n'
        '    """The amount with tax, rounded half up."""\n'
        "    return cents + cents * percent // 100\n\n\n"
        "def split(cents, people):\n"
        '    """Equal shares; the first ones take what is left over."""\n'
        "    share = cents // people\n"
        "    return [share] * people\n"
    ),
    "tests/test_money.py": (
        "from shop.money import split, with_tax\n\n\n"
        "def test_even():\n    assert split(100, 4) == [25, 25, 25, 25]\n\n\n"
        "def test_tax():\n    assert with_tax(100, 20) == 120\n"
    ),
    "pytest.ini": "[pytest]\npythonpath = .\n",
}
ISSUE = "split loses money: splitting 10 cents among 3 people gives shares that only add up to 9 cents."


def make_repository(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return commit_all(folder)


def commit_all(folder: Path) -> Path:
    """The folder as a repository of one commit."""
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
        subprocess.run([*git, *command], check=True)
    return folder


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop", SHOP)


@pytest.fixture
def configure(tmp_path: Path) -> Callable[..., Settings]:
    """Settings with a data home of the test's own; dotted keys override."""

    def make(**overrides: object) -> Settings:
        flags = {key.replace("__", "."): value for key, value in overrides.items()}
        env = {"AGENTFORGE_DATA_HOME": str(tmp_path / "data")}
        return load_settings(None, flags, env).settings

    return make


Fix = Callable[..., "Fixed"]


class Fixed:
    """A run that came to its end, with what it said on the way."""

    def __init__(self, result: RunResult, events: list[Event]) -> None:
        self.result, self.events = result, events

    def of_type(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.type == kind]


@pytest.fixture
def fix() -> Fix:
    async def run(repository: Path, settings: Settings, issue: str = ISSUE, **task: object) -> Fixed:
        events: list[Event] = []
        wanted = RepairTask(
            repository=RepositoryRef(source=str(repository)),
            issue=Issue(text=issue, title=issue.split(":")[0]),
            **task,  # type: ignore[arg-type]
        )
        return Fixed(await run_fix(wanted, settings, listener=events.append), events)

    return run
