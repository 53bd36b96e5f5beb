"""`agentforge audit`: who is responsible for each line of a patch, why, and on which evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import typer

from agentforge.cli.failures import tell
from agentforge.cli.output import ConfigOption, JsonOption, print_json, resolve_settings
from agentforge.cli.sanitize import neutralise, one_line
from agentforge.core.errors import ExitCode, RecordError, UsageError

app = typer.Typer(rich_markup_mode=None)
SHOWN = 6
"""How many entries of evidence and history are printed for a hunk; --json has all."""
WIDEST = 400
"""Characters of a line that are printed."""


@app.command("audit")
def audit(
    run: Annotated[str, typer.Argument(metavar="RUN", help='Run id, a unique prefix of it, or "last".')],
    file: Annotated[str | None, typer.Option("--file", metavar="PATH", help="Only this file.")] = None,
    line: Annotated[
        int | None, typer.Option("--line", metavar="N", min=1, help="Only this line of the patched file.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Verify every invariant of the record.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Which responsibility owns each changed line, why it is there, what it passed and how it changed."""
    if line is not None and file is None:
        raise UsageError("--line needs --file", hint="name the file whose line is meant")
    from agentforge.orchestrator.store import RunStore

    store = RunStore(resolve_settings(config).settings.data_home)
    record = store.open(run)
    if check:
        raise typer.Exit(_check(record, store, as_json=as_json))
    document = record.audit()
    hunks = list(_chosen(_hunks(document, record.run_id), file, line))
    if as_json:
        print_json({**document, "run_id": record.run_id, "hunks": hunks})
    else:
        _print_all(record.run_id, document, hunks)
    if not hunks and (file is not None or document.get("result") is None):
        _tell_why_empty(record.run_id, document, file, line)
        raise typer.Exit(ExitCode.NO_VERIFIED_PATCH)


def _hunks(document: Mapping[str, Any], run_id: str) -> list[dict[str, Any]]:
    if "hunks" not in document:
        raise RecordError(f"run {run_id} was recorded before hunks had owners", hint="run the repair again")
    hunks: list[dict[str, Any]] = document["hunks"]
    return hunks


def _chosen(hunks: Iterable[dict[str, Any]], file: str | None, line: int | None) -> Iterator[dict[str, Any]]:
    for hunk in hunks:
        if file is not None and hunk["file"] != file.removeprefix("./"):
            continue
        if line is None or _holds(hunk["lines"]["new"], line):
            yield hunk


def _holds(span: list[int] | None, line: int) -> bool:
    return span is not None and span[0] <= line <= span[1]


def _tell_why_empty(run_id: str, document: Mapping[str, Any], file: str | None, line: int | None) -> None:
    if document.get("result") is None:
        tell(f"run {run_id} has no patch", f"`agentforge runs show {run_id}` says why")
    elif line is not None:
        tell(f"the patch does not change line {line} of {file}", "line numbers are those after the patch")
    else:
        tell(f"the patch does not change {file}", "paths are those of the repository's root")


def _print_all(run_id: str, document: Mapping[str, Any], hunks: list[dict[str, Any]]) -> None:
    for hunk in hunks:
        print(*(_safe(text) for text in _hunk_lines(hunk)), "", sep="\n")
    exceptions = document.get("exceptions") or []
    told = f"{len(hunks)} hunks, {len(document['responsibilities'])} responsibilities"
    told += f", {len(document['transactions'])} repairs, {len(document['fallbacks'])} fallbacks"
    print(one_line(f"run {run_id}: {told}, {len(exceptions)} integration exceptions", 400))


def _hunk_lines(hunk: Mapping[str, Any]) -> Iterator[str]:
    yield f"{hunk['file']}:{_where(hunk['lines'])}  {hunk['unit']}"
    yield from (f"    {text}" for text in hunk["text"][:SHOWN])
    if len(hunk["text"]) > SHOWN:
        yield f"    … {len(hunk['text']) - SHOWN} more lines"
    yield f"  responsibility  {hunk['responsibility']}"
    if hunk["exception"]:
        yield f"  exception       by {hunk['exception']['by']}: {hunk['exception']['rationale']}"
    yield f"  why             {hunk['why']}"
    for number, entry in enumerate(hunk["evidence"][:SHOWN]):
        sign = "passed" if entry["passed"] else "REJECTED"
        name = f" {entry['id']}" if entry["id"] else ""
        yield f"  {'evidence' if not number else '':<14}  {sign}: {entry['kind']}{name}: {entry['text']}"
    for number, entry in enumerate(hunk["history"][:SHOWN]):
        moved = f", transaction {entry['transaction']}" if entry["transaction"] else ""
        moved += ", global fallback" if entry["fallback"] else ""
        told = f"{entry['candidate']} by {entry['by']} in round {entry['round']}: gate {entry['verdict']}"
        yield f"  {'history' if not number else '':<14}  {told}, {entry['decision']}{moved}"


def _safe(text: str) -> str:
    """One line of what others wrote, its indentation kept."""
    return neutralise(text.replace("\n", " "))[:WIDEST]


def _where(lines: Mapping[str, Any]) -> str:
    if lines["new"]:
        return _span(lines["new"])
    return f"{_span(lines['old'])} (removed)"


def _span(span: list[int]) -> str:
    return str(span[0]) if span[0] == span[1] else f"{span[0]}-{span[1]}"


def _check(record: Any, store: Any, *, as_json: bool) -> ExitCode:
    from agentforge.orchestrator.responsibility.check import check, read_stored

    findings = check(read_stored(record, store))
    good = all(finding.holds for finding in findings)
    if as_json:
        rows = [finding.model_dump(mode="json") for finding in findings]
        print_json({"run_id": record.run_id, "holds": good, "invariants": rows})
    else:
        for finding in findings:
            told = f": {finding.text}" if finding.text else ""
            print(one_line(f"{'holds ' if finding.holds else 'BROKEN'}  {finding.name}{told}", 400))
    return ExitCode.VERIFIED if good else ExitCode.NO_VERIFIED_PATCH
