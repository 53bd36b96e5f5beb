"""`agentforge index`: what the repository index knows, and how it ranks an issue."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentforge.cli.failures import tell
from agentforge.cli.output import ConfigOption, JsonOption, print_json, print_table, resolve_settings
from agentforge.cli.sanitize import one_line
from agentforge.core.errors import StoreError, UsageError

if TYPE_CHECKING:
    from agentforge.core.retrieval import Symbol
    from agentforge.core.tree import Tree
    from agentforge.memory.ranking import RankedFile
    from agentforge.memory.repo_index import IndexStatus, RepositoryIndex

app = typer.Typer(
    help="The repository index: build, status, search, watch.", no_args_is_help=True, rich_markup_mode=None
)
RepoOption = Annotated[Path, typer.Option("--repo", help="A directory; ignored files are left out.")]


@app.command()
def build(repo: RepoOption = Path(), config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Embed every symbol that has no vector yet. A repair does this by itself for what it needs."""
    tree, index = _tree(repo), _index(config)
    index.open(tree, _progress("files", as_json))
    _tell_cache_problem(index)
    _print_status(index.build(tree, _progress("symbols", as_json)), as_json)


def _progress(what: str, as_json: bool) -> Callable[[int, int], None] | None:
    """A line on the terminal that counts; none where nobody watches. Ctrl-C keeps what is done."""
    if as_json or not sys.stderr.isatty():
        return None
    started = last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - started > 1 and (done == total or now - last > 0.1):
            last = now
            width = 30 * done // max(1, total)
            bar = "#" * width + "." * (30 - width)
            end = "\n" if done == total else ""
            print(f"\r[{bar}] {done}/{total} {what}", end=end, file=sys.stderr, flush=True)

    return show


def _tell_cache_problem(index: RepositoryIndex) -> None:
    if index.cache_problem:
        tell(f"the index cache is not used: {index.cache_problem}", label="warning")


def _learn_history(index: RepositoryIndex, repo: Path, config: Path | None) -> None:
    """Earlier commits of the directory's repository, where it is one; they only help the ranking."""
    import tempfile

    from agentforge.core.errors import RepositoryError
    from agentforge.memory.history import read_commits
    from agentforge.repo.shadow import locate, make_shadow

    limit = resolve_settings(config).settings.memory.history
    try:
        with tempfile.TemporaryDirectory(prefix="agentforge-") as scratch:
            git = make_shadow(locate(repo), Path(scratch))
            index.learn_history(read_commits(git.run, "HEAD", limit))
    except RepositoryError:
        return


@app.command()
def status(repo: RepoOption = Path(), config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Files, symbols, and how many symbols have a stored vector."""
    _print_status(_index(config).status(_tree(repo)), as_json)


@app.command()
def search(
    issue: Annotated[str, typer.Option("--issue", help="Text, @FILE, or - for standard input.")],
    repo: RepoOption = Path(),
    k: Annotated[int, typer.Option("-k", min=1, help="How many at most.")] = 5,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """The files and symbols an issue points at, best first, with the signals that say so."""
    text = _issue_text(issue)
    tree, index = _tree(repo), _index(config)
    _learn_history(index, repo, config)
    files = index.open(tree, _progress("files", as_json)).rank_files(text, k)
    try:
        symbols = index.search(text, tree, k)
    except StoreError as error:
        tell(f"vectors are not used: {error.what}", error.hint, label="warning")
        symbols = index.open(tree).search(text, k)
    _tell_cache_problem(index)
    if as_json:
        documents = [symbol.model_dump(mode="json") for symbol in symbols]
        print_json({"files": [asdict(file) for file in files], "symbols": documents})
    else:
        _print_ranking(files, symbols)


@app.command()
def watch(repo: RepoOption = Path(), config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Keep the index of a directory current and say what changed, until Ctrl-C."""
    from agentforge.memory.live import LiveIndex

    def changed(paths: frozenset[str], symbols: int) -> None:
        _print_change({"changed": sorted(paths), "symbols": symbols}, as_json)

    index = _index(config)
    with LiveIndex(repo, index, lambda text: tell(text, label="warning"), changed) as live:
        _tell_cache_problem(index)
        changed(frozenset(), live.symbols)
        while True:
            time.sleep(3600)


def _print_change(report: dict[str, object], as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps(report), flush=True)
        return
    paths = report["changed"]
    shown = ", ".join(one_line(path) for path in paths[:5]) if isinstance(paths, list) else ""
    print(f"{shown or 'indexed'}: {report['symbols']} symbols", flush=True)


def _issue_text(argument: str) -> str:
    if argument == "-":
        text = sys.stdin.read()
    elif argument.startswith("@"):
        try:
            text = Path(argument[1:]).read_text("utf-8", "replace")
        except OSError as error:
            raise UsageError(f"the issue file {argument[1:]} cannot be read: {error.strerror}") from None
    else:
        text = argument
    if not text.strip():
        raise UsageError("the issue is empty")
    return text


def _tree(repo: Path) -> Tree:
    from agentforge.memory.scan import scan_directory

    return scan_directory(repo).tree


def _index(config: Path | None) -> RepositoryIndex:
    from agentforge.memory.open import open_index

    settings = resolve_settings(config).settings
    return open_index(settings.data_home, settings.memory)


def _print_status(status: IndexStatus, as_json: bool) -> None:
    if as_json:
        print_json(asdict(status))
        return
    print(f"{status.files} files, {status.symbols} symbols, {status.embedded} of them with a stored vector")
    print(f"{status.stored} vectors in the store, of all repositories")


def _print_ranking(files: list[RankedFile], symbols: list[Symbol]) -> None:
    reasons = [
        ", ".join(f"{name} {share:.2f}" for name, share in list(file.why.items())[:3]) for file in files
    ]
    rows = [(f"{file.score:.2f}", file.path, why) for file, why in zip(files, reasons, strict=True)]
    print_table(("SCORE", "FILE", "WHY"), rows)
    print()
    print_table(
        ("SCORE", "SYMBOL", "PLACE", "WHY"),
        [
            (
                f"{one.score:.2f}",
                one.name,
                f"{one.path}:{one.start_line}-{one.end_line}",
                ", ".join(one.why[:3]),
            )
            for one in symbols
        ],
    )
