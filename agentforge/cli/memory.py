"""`agentforge memory`: the verified fixes of the past."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from agentforge.cli.output import ConfigOption, JsonOption, print_json, print_table, resolve_settings
from agentforge.cli.sanitize import neutralise, one_line
from agentforge.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from agentforge.core.retrieval import Episode
    from agentforge.memory.episodes import EpisodeStore

app = typer.Typer(
    help="Verified fixes of the past: list, show, search, stats, forget.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
RepoOption = Annotated[str | None, typer.Option("--repo", help="Only episodes of this repository.")]


@app.command("list")
def list_episodes(repo: RepoOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """All episodes, newest first."""
    _print_episodes(_store(config).list(repo), as_json)


@app.command()
def show(
    episode: Annotated[str, typer.Argument(metavar="ID", help="An id, or the start of one.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """One episode whole: issue, patch and tests."""
    found = _store(config).show(episode)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    facts = (found.repository, found.base, found.workflow, found.model, found.created)
    names = ("repository", "base", "workflow", "model", "created")
    print(f"episode {found.id}")
    for name, value in zip(names, facts, strict=True):
        print(f"{name:<11} {one_line(value) or '-'}")
    print(f"\n{neutralise(found.issue.strip())}\n\n{neutralise(found.patch.rstrip())}")
    for test in found.tests:
        print(f"fixed: {one_line(test)}")


@app.command()
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="An issue, or words of one.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many at most.")] = 5,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """The episodes most like TEXT, best first."""
    if not text.strip():
        raise UsageError("the text to search for is empty")
    _print_episodes(_store(config).search(text, k), as_json, scored=True)


@app.command()
def stats(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """How much is remembered, and of what."""
    found = _store(config).stats()
    if as_json:
        print_json(asdict(found))
        return
    print(f"{found.episodes} episodes" + (f", {found.oldest} to {found.newest}" if found.episodes else ""))
    for repository, count in sorted(found.repositories.items(), key=lambda pair: (-pair[1], pair[0])):
        print(f"{count:>6}  {one_line(repository)}")


@app.command()
def forget(
    episode: Annotated[str | None, typer.Argument(metavar="ID", help="An id, or the start of one.")] = None,
    repo: RepoOption = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="DATE", help="Older than this day.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete one episode, or all of a repository, or all older than a day."""
    if (episode is None) == (repo is None and before is None):
        raise UsageError("say what to forget: either an ID, or --repo and/or --before")
    count = _store(config).forget(episode, repository=repo, before=_day(before))
    if as_json:
        print_json({"forgotten": count})
    else:
        print(f"forgot {count} episode{'' if count == 1 else 's'}")


def _day(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a date", hint="write it like 2025-01-31") from None
    return day if day.tzinfo else day.replace(tzinfo=UTC)


def _store(config: Path | None) -> EpisodeStore:
    from agentforge.memory.open import open_episodes

    return open_episodes(resolve_settings(config).settings.data_home)


def _print_episodes(episodes: tuple[Episode, ...], as_json: bool, *, scored: bool = False) -> None:
    if as_json:
        print_json([episode.model_dump(mode="json") for episode in episodes])
        return
    if not episodes:
        print("no episodes")
        return
    header = ("ID", "SCORE", "REPOSITORY", "ISSUE") if scored else ("ID", "CREATED", "REPOSITORY", "ISSUE")
    print_table(
        header,
        [
            (one.id, f"{one.score:.2f}" if scored else one.created, one.repository, _first_line(one.issue))
            for one in episodes
        ],
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
