"""The process boundary: every way a command can end becomes one line and an exit code."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import platformdirs
import typer

from agentforge.cli.sanitize import neutralise, one_line
from agentforge.core.errors import AgentForgeError, ExitCode
from agentforge.core.redact import Redactor

INTERNAL_ERROR = int(ExitCode.DEFECT)
"""Exit code of a defect of ours (EX_SOFTWARE of sysexits.h)."""

_SECRETS = ("OPENAI_API_KEY", "AGENTFORGE_MODEL__API_KEY", "GITHUB_TOKEN", "AGENTFORGE_GITHUB_TOKEN")


def guarded(command: Callable[[], int], *, as_json: bool = False) -> int:
    """Run `command`; whatever it raises is told on stderr in one line. Returns the exit code.

    With `as_json` a command line that cannot be parsed is a document on stdout, too.
    """
    try:
        with _termination_is_interruption():
            code = command()
        sys.stdout.flush()
    except typer.Exit as ended:
        return _flushed(ended.exit_code)
    except typer.TyperException as error:
        return _usage(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return _reader_left()
    except Exception as error:  # noqa: BLE001 - the process boundary
        return report_failure(error)
    return code


def report_failure(error: BaseException) -> int:
    """Tell `error` and return its exit code. A defect of ours leaves its traceback in a file."""
    expected = find_expected(error)
    if os.environ.get("AGENTFORGE_DEBUG"):
        traceback.print_exception(error)
    if expected is not None:
        tell(expected.what, expected.hint)
        return int(expected.exit_code)
    tell(
        f"a defect in agentforge: {type(error).__name__}: {error}",
        f"the traceback is in {_write_traceback(error)}; please report it",
    )
    return INTERNAL_ERROR


def find_expected(error: BaseException) -> AgentForgeError | None:
    """The error meant for people in `error`, also inside an exception group."""
    if isinstance(error, AgentForgeError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(find_expected, error.exceptions)), None)
    return None


def tell(what: str, hint: str = "", *, label: str = "error") -> None:
    """`error: what` and `hint: …` on stderr, safe for a terminal."""
    red, plain = ("\x1b[1;31m", "\x1b[0m") if _coloured() and label == "error" else ("", "")
    with reader_may_leave():
        print(f"{red}{label}:{plain} {one_line(_without_secrets(what), 600)}", file=sys.stderr)
        if hint:
            print(f"hint: {one_line(_without_secrets(hint), 600)}", file=sys.stderr)
        sys.stderr.flush()


def error_document(what: str, hint: str, code: int) -> dict[str, Any]:
    """What a command with --json says on stdout when it fails."""
    return {"outcome": "error", "exit_code": code, "error": {"what": what, "hint": hint}}


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Write to stderr; where nobody reads it any more, that and everything later is dropped."""
    try:
        yield
    except BrokenPipeError:
        _silence(sys.stderr.fileno())


def _usage(error: typer.TyperException, *, as_json: bool) -> int:
    message = error.format_message()
    if "\n" in message.strip():  # a command that wants a sub-command shows its help
        print(message, file=sys.stderr)
        return ExitCode.USAGE
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "agentforge"
    what, hint = message[:1].lower() + message[1:].rstrip("."), f"`{path} --help` shows what is possible"
    if as_json:
        print(json.dumps(error_document(_without_secrets(what), hint, ExitCode.USAGE), indent=2))
    tell(what, hint)
    return ExitCode.USAGE


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    return code


def _reader_left() -> int:
    """Whoever read our output is gone (`| head`): be silent, as the shell's tools are."""
    _silence(sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _silence(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _coloured() -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stderr.isatty() and not plain


@contextmanager
def _termination_is_interruption() -> Iterator[None]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does, so that its `finally` blocks run."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _without_secrets(text: str) -> str:
    return Redactor(filter(None, map(os.environ.get, _SECRETS))).text(text)


def _write_traceback(error: BaseException) -> Path:
    text = _without_secrets("".join(traceback.format_exception(error)))
    home = os.environ.get("AGENTFORGE_DATA_HOME") or platformdirs.user_data_dir("agentforge")
    folder = Path(home).expanduser() / "crashes"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(".txt", time.strftime("%Y%m%d-%H%M%S-"), folder)
    except OSError:
        handle, name = tempfile.mkstemp(".txt", "agentforge-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(neutralise(text))
    return Path(name)
