"""`agentforge memory`: the verified fixes of the past, and the lessons counted from them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentforge.cli.output import ConfigOption, JsonOption, print_json, print_table, resolve_settings
from agentforge.cli.sanitize import neutralise, one_line
from agentforge.core.errors import UsageError

if TYPE_CHECKING:
    from agentforge.core.retrieval import Episode, Insight
    from agentforge.memory.episodes import EpisodeStore
    from agentforge.memory.insights import InsightStore

app = typer.Typer(
    help="Verified fixes of the past: list, show, search, stats, forget, retract, export, import.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
RepoOption = Annotated[str | None, typer.Option("--repo", help="Only episodes of this repository.")]


class Kind(StrEnum):
    """What memory holds."""

    EPISODE = "episode"
    INSIGHT = "insight"


KindOption = Annotated[Kind, typer.Option("--kind", help="Fixes, or lessons from several of them.")]


@app.command("list")
def list_memory(
    repo: RepoOption = None,
    kind: Annotated[
        Kind, typer.Option("--kind", help="Fixes, or lessons from several of them.")
    ] = Kind.EPISODE,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """All episodes, newest first; or all insights, the most trusted first."""
    if kind is Kind.INSIGHT:
        if repo is not None:
            raise UsageError("an insight belongs to no repository", hint="leave --repo out")
        _print_insights(_insights(config).list(retracted=True), as_json)
    else:
        _print_episodes(_store(config).list(repo), as_json)


@app.command()
def show(
    episode: Annotated[str, typer.Argument(metavar="ID", help="An id, or the start of one.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """One episode whole: issue, patch, tests and what failed before; or one insight."""
    insight = _insight_of(config, episode)
    if insight is not None:
        _print_insight(insight, as_json)
        return
    found = _store(config).show(episode)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    facts = (found.repository, found.base, found.workflow, found.model, found.created, found.retracted)
    names = ("repository", "base", "workflow", "model", "created", "retracted")
    print(f"episode {found.id}")
    for name, value in zip(names, facts, strict=True):
        print(f"{name:<11} {one_line(value) or '-'}")
    print(f"\n{neutralise(found.issue.strip())}\n\n{neutralise(found.patch.rstrip())}")
    for test in found.tests:
        print(f"fixed: {one_line(test)}")
    for attempt in found.attempts:
        tests = ", ".join(one_line(test) for test in attempt.tests)
        print(f"\nfailed before: {one_line(attempt.reason)}{f' ({tests})' if tests else ''}")
        print(neutralise(attempt.patch.rstrip()))


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
def retract(
    entry: Annotated[str, typer.Argument(metavar="ID", help="An id, or the start of one.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, e.g. what it broke later.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """No longer use an episode or insight; it stays, with the reason."""
    if _insight_of(config, entry) is not None:
        changed: Episode | Insight = _insights(config).retract(entry, reason)
    else:
        changed = _store(config).retract(entry, reason)
        _insights(config).refresh(_store(config).list())
    if as_json:
        print_json(changed.model_dump(mode="json"))
    else:
        print(f"retracted {changed.id}")


@app.command("export")
def export_memory(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Standard output without one.")] = None,
    config: ConfigOption = None,
) -> None:
    """Write everything as JSON lines; progress and counts go to stderr."""
    from agentforge.memory.exchange import export_lines

    lines = list(export_lines(_store(config), _insights(config)))
    text = "".join(f"{line}\n" for line in lines)
    if file is None:
        print(text, end="")
    else:
        try:
            file.write_text(text, "utf-8")
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    print(f"exported {len(lines) - 1} entries", file=sys.stderr)


@app.command("import")
def import_memory(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `memory export` wrote.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add what an export holds; a fix that is known is merged."""
    from agentforge.memory.exchange import import_lines

    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    done = import_lines(lines, _store(config), _insights(config))
    if as_json:
        print_json(asdict(done))
        return
    print(f"imported {done.episodes} episodes and {done.insights} insights, merged {done.merged}")
    for problem in done.refused:
        print(f"left out {one_line(problem)}", file=sys.stderr)


@app.command()
def stats(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """How much is remembered, and of what."""
    found = _store(config).stats()
    lessons = len(_insights(config).list())
    if as_json:
        print_json({**asdict(found), "insights": lessons})
        return
    print(f"{found.episodes} episodes" + (f", {found.oldest} to {found.newest}" if found.episodes else ""))
    if lessons:
        print(f"{lessons} insights")
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
    """Delete one episode or insight, or all episodes of a repository, or all older than a day."""
    if (episode is None) == (repo is None and before is None):
        raise UsageError("say what to forget: either an ID, or --repo and/or --before")
    insight = _insight_of(config, episode) if episode else None
    if insight is not None:
        count, what = _insights(config).forget([insight.id]), "insight"
    else:
        count, what = _store(config).forget(episode, repository=repo, before=_day(before)), "episode"
        if count:
            _insights(config).refresh(_store(config).list())
    if as_json:
        print_json({"forgotten": count})
    else:
        print(f"forgot {count} {what}{'' if count == 1 else 's'}")


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

    settings = resolve_settings(config).settings
    return open_episodes(settings.data_home, settings.memory)


def _insights(config: Path | None) -> InsightStore:
    from agentforge.memory.open import open_insights

    settings = resolve_settings(config).settings
    return open_insights(settings.data_home, settings.memory)


def _insight_of(config: Path | None, prefix: str) -> Insight | None:
    """The insight that `prefix` means, if it means one; an episode of that id comes first."""
    if any(one.id.startswith(prefix) for one in _store(config).list()):
        return None
    found = [one for one in _insights(config).list(retracted=True) if one.id.startswith(prefix)]
    return found[0] if len(found) == 1 and prefix else None


def _print_insights(insights: tuple[Insight, ...], as_json: bool) -> None:
    if as_json:
        print_json([one.model_dump(mode="json") for one in insights])
        return
    if not insights:
        print("no insights")
        return
    rows = [
        (
            one.id,
            f"{one.weight:.2f}",
            str(len(one.episodes)),
            "retracted" if one.retracted else "",
            one.lesson,
        )
        for one in insights
    ]
    print_table(("ID", "TRUST", "EPISODES", "", "LESSON"), rows)


def _print_insight(insight: Insight, as_json: bool) -> None:
    if as_json:
        print_json(insight.model_dump(mode="json"))
        return
    print(f"insight {insight.id}\n{neutralise(insight.lesson)}")
    print(f"trust       {insight.weight:.2f} (helped {insight.helped}, misled {insight.misled})")
    print(f"episodes    {', '.join(one_line(one) for one in insight.episodes)}")
    print(f"retracted   {one_line(insight.retracted) or '-'}")


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
