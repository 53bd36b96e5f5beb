"""Where an issue comes from: text, a file, standard input, or GitHub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TextIO

from agentforge.core.errors import UsageError
from agentforge.core.task import Issue
from agentforge.repo.github import GITHUB_API, github_issue, issue_address

MAX_ISSUE_BYTES = 1024 * 1024
_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_TITLE_CHARS = 120


def read_issue(
    spec: str,
    *,
    stdin: TextIO | None = None,
    github_api: str = GITHUB_API,
    token: str | None = None,
    timeout_s: float = 20.0,
) -> Issue:
    """The issue that `spec` names: text, `@file`, `-` (standard input) or a GitHub issue URL.

    `token` is sent to `github_api` only. Blocking. Raises `UsageError`, or `IssueTrackerError` when the
    tracker does not give the issue.
    """
    wanted = spec.strip()
    if wanted == "-":
        return _text_issue(_from_stdin(stdin), "stdin")
    if wanted.startswith("@"):
        path = Path(wanted[1:]).expanduser()
        return _text_issue(_from_file(path), f"file:{wanted[1:]}")
    if _URL.fullmatch(wanted):
        address = issue_address(wanted, github_api)
        return github_issue(address, github_api=github_api, token=token, timeout_s=timeout_s)
    if len(spec.encode("utf-8", "surrogateescape")) > MAX_ISSUE_BYTES:
        raise UsageError("the issue is larger than 1 MB", hint="keep what describes the bug")
    return _text_issue(spec, "text")


def _from_stdin(stdin: TextIO | None) -> str:
    if stdin is None:
        raise UsageError("--issue -: there is no standard input", hint="pipe the issue in, or use @FILE")
    try:
        text = stdin.read(MAX_ISSUE_BYTES + 1)
    except UnicodeDecodeError as error:
        raise UsageError("--issue -: standard input is not UTF-8 text") from error
    return _checked(text, "standard input")


def _from_file(path: Path) -> str:
    if path.is_dir():
        raise UsageError(f"--issue @{path}: is a folder", hint="name a text file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ISSUE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--issue @{path}: {error.strerror}", hint="check the path after @") from error
    if len(data) > MAX_ISSUE_BYTES:
        raise UsageError(f"--issue @{path}: larger than 1 MB", hint="keep what describes the bug")
    try:
        return _checked(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise UsageError(f"--issue @{path}: not UTF-8 text", hint="convert it with iconv") from error


def _checked(text: str, where: str) -> str:
    if len(text) > MAX_ISSUE_BYTES:
        raise UsageError(f"{where}: larger than 1 MB", hint="keep what describes the bug")
    if "\0" in text:
        raise UsageError(f"{where}: is binary, not text", hint="name a text file")
    return text


def _text_issue(text: str, source: str) -> Issue:
    clean = text.replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8").strip("\n")
    if not clean.strip():
        raise UsageError("the issue is empty", hint="say what goes wrong: text, @FILE, - or a GitHub URL")
    first = next(line.strip() for line in clean.splitlines() if line.strip())
    title = first.lstrip("#").strip() or first
    return Issue(text=clean, title=title[:_TITLE_CHARS], source=source)
