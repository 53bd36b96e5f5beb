"""What goes to stdout, and the settings of a command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentforge.cli.failures import tell
from agentforge.cli.sanitize import one_line

if TYPE_CHECKING:
    from agentforge.config.load import Resolved

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file, instead of your own."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def resolve_settings(config: Path | None, overrides: Mapping[str, object] | None = None) -> Resolved:
    """The configuration of this process; what was ignored is said on stderr."""
    from agentforge.config.load import load_settings

    resolved = load_settings(config, overrides or {}, os.environ)
    for warning in resolved.warnings:
        tell(warning, label="warning")
    return resolved


def print_json(document: Any) -> None:
    """Exactly one JSON document on stdout. Escapes all but ASCII, so that it is safe on a terminal too."""
    print(json.dumps(document, indent=2, default=str))


def print_bytes(data: bytes) -> None:
    """Bytes as they are, for files and pipes."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Plain columns, each cell on one line and safe for a terminal."""
    cells = [list(header), *([one_line(cell, 60) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())
