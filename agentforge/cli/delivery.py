"""Handing over what was verified: to the working tree, a branch or a file, as the user chose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentforge.cli.failures import tell
from agentforge.core.errors import UsageError

if TYPE_CHECKING:
    from agentforge.cli.options import FixOptions
    from agentforge.core.patch import Patch
    from agentforge.core.tree import Tree
    from agentforge.orchestrator.result import RunResult

_SUBJECT_LENGTH = 68
_NAMED = 5


@dataclass(frozen=True)
class Delivery:
    """Where the patch goes. What can be known beforehand is checked before anything is spent."""

    apply: bool = False
    branch: str | None = None
    output: Path | None = None
    include_uncommitted: bool = False
    subject: str = ""

    @staticmethod
    def of(options: FixOptions, issue_title: str) -> Delivery:
        """Raises `UsageError` or `RepositoryError` where the chosen way cannot work."""
        output = options.output.expanduser().absolute() if options.output else None
        if output is not None and output.is_dir():
            raise UsageError(f"--output {output} is a folder", hint="give it a file name")
        if output is not None and not output.parent.is_dir():
            raise UsageError(f"--output {output}: no such folder", hint=f"create {output.parent} first")
        if options.apply or options.branch:
            _check_repository(options, _local_repository(options))
        subject = issue_title or "Repair"
        return Delivery(options.apply, options.branch, output, options.include_uncommitted, subject)

    def deliver(self, result: RunResult) -> str | None:
        """Hand the patch over; where it went, in words, or None. Only what was verified touches a repository.

        Raises `RepositoryError` where the repository's state forbids it; the patch stays in the record.
        """
        if result.patch is None or result.outcome == "interrupted":
            return None
        if self.output is not None:
            return self._write(self.output, result.patch)
        if result.outcome != "verified":
            return None
        if self.apply:
            return self._apply(result, result.patch)
        return self._commit(self.branch, result, result.patch) if self.branch else None

    def _write(self, output: Path, patch: Patch) -> str:
        from agentforge.repo.deliver import write_output

        write_output(output, patch)
        return str(output)

    def _apply(self, result: RunResult, patch: Patch) -> str:
        from agentforge.repo.deliver import apply_to_worktree

        root = _root(result)
        base = _recorded_base(result) if self.include_uncommitted else None
        paths = apply_to_worktree(root, patch, result.base_commit, base_tree=base)
        return f"working tree {root} ({', '.join(paths)})"

    def _commit(self, branch: str, result: RunResult, patch: Patch) -> str:
        from agentforge.repo.deliver import create_branch

        message = f"{_subject(self.subject)}\n\n{result.summary}\n\nagentforge run {result.run_id}\n"
        base = _recorded_base(result) if self.include_uncommitted else None
        root = _root(result)
        commit = create_branch(root, branch, patch, result.base_commit, message, base_tree=base)
        return f"branch {branch} ({commit[:12]})"


def _local_repository(options: FixOptions) -> Path:
    from agentforge.repo.remote import file_url_path, remote_url

    from_url = file_url_path(options.repo)
    if not from_url and remote_url(options.repo):
        way = "--apply" if options.apply else "--branch"
        raise UsageError(
            f"{way} needs a local repository, {options.repo} is a URL", hint="clone it first, or use --output"
        )
    return from_url or Path(options.repo).expanduser()


def _check_repository(options: FixOptions, folder: Path) -> None:
    """What can be known of a delivery before anything is spent on the patch."""
    from agentforge.repo.deliver import check_branch, check_worktree

    if options.branch:
        check_branch(folder, options.branch)
        if options.include_uncommitted and check_worktree(folder):
            raise UsageError(
                "--branch cannot hold a patch of uncommitted changes",
                hint="commit them first, or use --apply or --output",
            )
        return
    dirty = check_worktree(folder)
    if dirty and not options.include_uncommitted:
        named = ", ".join(dirty[:_NAMED]) + (", …" if len(dirty) > _NAMED else "")
        tell(
            f"uncommitted changes: {named}; a patch that touches one of these will not be applied",
            "commit or stash them first, or take them in with --include-uncommitted",
            label="note",
        )


def _root(result: RunResult) -> Path:
    if result.repository_root is None:
        raise UsageError("there is no local repository to change", hint="the patch is in the run directory")
    return result.repository_root


def _recorded_base(result: RunResult) -> Tree:
    """The base with the user's uncommitted changes, as the run kept it."""
    from agentforge.orchestrator.store import RunRecord, RunStore

    digest = RunRecord(result.run_dir).manifest["base"]["tree"]
    return RunStore(result.run_dir.parent.parent).load_tree(digest)


def _subject(title: str) -> str:
    line = " ".join(title.split())
    return line if len(line) <= _SUBJECT_LENGTH else line[: _SUBJECT_LENGTH - 1] + "…"
