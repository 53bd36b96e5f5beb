"""`agentforge patch`: the patch engine by itself, on any directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from agentforge.cli.failures import tell
from agentforge.cli.output import JsonOption, print_json
from agentforge.cli.sanitize import neutralise, one_line
from agentforge.core.errors import AgentForgeError, ExitCode, PatchError, RepositoryError, UsageError
from agentforge.repo.patch import AppliedEdit, DirectoryTree, apply_answer, precise_reason, write_changes

app = typer.Typer(
    help="Apply any answer a model may give to a tree, or refuse it with a reason.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def patch() -> None:
    """Apply any answer a model may give to a tree, or refuse it with a reason."""


@app.command()
def apply(
    repo: Annotated[Path, typer.Option("--repo", metavar="DIR", help="The tree to edit; git is not needed.")],
    answer: Annotated[
        str, typer.Option("--answer", metavar="FILE|-", help="The model's answer; - reads standard input.")
    ],
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="PATH", help="The file to edit where the answer names none."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Decide, but write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Edit the tree as the answer says, all of it, or exit with 1 and a reason category.

    Takes unified diffs, SEARCH/REPLACE blocks, whole functions or classes, whole files and
    {"old", "new"} JSON, fenced or not, with prose around.
    """
    try:
        edit = _apply(repo, answer, target, dry_run)
    except PatchError as refusal:
        _tell_refusal(refusal, as_json, dry_run)
        raise typer.Exit(ExitCode.NO_VERIFIED_PATCH) from refusal
    except AgentForgeError as error:
        if as_json:
            _print_failure(error, dry_run)
        raise
    _tell_success(edit, as_json, dry_run)


def _apply(repo: Path, answer: str, target: str | None, dry_run: bool) -> AppliedEdit:
    content = _read_answer(answer)
    if not repo.is_dir():
        raise RepositoryError(f"{repo} is not a directory", hint="give --repo the root of a tree")
    edit = apply_answer(content, DirectoryTree(repo), target=target)
    if not dry_run:
        write_changes(repo, edit.changes)
    return edit


def _read_answer(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        hint = "--answer takes a file, or - for standard input"
        raise UsageError(f"the answer {name} cannot be read: {error.strerror}", hint=hint) from error


def _tell_refusal(refusal: PatchError, as_json: bool, dry_run: bool) -> None:
    if as_json:
        _print_failure(refusal, dry_run)
        return
    tell(f"refused ({refusal.reason.value}): {refusal.what}")
    if refusal.closest:
        print(neutralise(_sayable(precise_reason(refusal))), file=sys.stderr)


def _print_failure(error: AgentForgeError, dry_run: bool) -> None:
    """One document for every end but success; `reason` is null where no patch was judged."""
    refusal = error if isinstance(error, PatchError) else None
    print_json(
        {
            "applied": False,
            "reason": refusal.reason.value if refusal else None,
            "message": _sayable(error.what),
            "path": _sayable(refusal.path) if refusal else "",
            "closest": _sayable(refusal.closest) if refusal else "",
            "edit_format": None,
            "files": [],
            "notes": [],
            "dry_run": dry_run,
        }
    )


def _tell_success(edit: AppliedEdit, as_json: bool, dry_run: bool) -> None:
    files = [_sayable(path) for path in sorted(edit.changes)]
    verb = "would change" if dry_run else "changed"
    message = f"{verb} {', '.join(files)}"
    if as_json:
        print_json(
            {
                "applied": True,
                "reason": None,
                "message": message,
                "path": files[0] if len(files) == 1 else "",
                "closest": "",
                "edit_format": edit.edit_format,
                "files": files,
                "notes": [_sayable(note) for note in edit.notes],
                "dry_run": dry_run,
            }
        )
        return
    print(one_line(f"{message} ({edit.edit_format})", 600))
    for note in edit.notes:
        tell(_sayable(note), label="note")


def _sayable(text: str) -> str:
    """Undecodable bytes of a path shown as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
