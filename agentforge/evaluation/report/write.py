"""Write the report of a comparison: tables in three forms, figures, one self-contained page."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentforge.core.errors import ConfigError
from agentforge.evaluation.report.figures import figures_of
from agentforge.evaluation.report.tables import Table, csv_text, latex, markdown, tables_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}
th,td{padding:.25rem .7rem;border-bottom:1px solid #8886;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
figure{margin:1.5rem 0;background:#fff;border-radius:.5rem;padding:.5rem;width:fit-content;max-width:100%}
figure svg{max-width:100%;height:auto} p{max-width:60rem} code{overflow-wrap:anywhere}
"""


def write_report(comparison: Mapping[str, Any], folder: Path) -> tuple[Path, ...]:
    """Everything under `folder`, which is made. Raises `ConfigError` where it cannot be written."""
    tables = tables_of(comparison)
    figures = figures_of(comparison)
    written: list[Path] = []
    try:
        for path, data in _files(comparison, tables, figures):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            written.append(target)
    except OSError as error:
        raise ConfigError(f"{folder}: the report cannot be written: {error.strerror}") from None
    return tuple(written)


def _files(
    comparison: Mapping[str, Any], tables: tuple[Table, ...], figures: Mapping[str, Figure]
) -> Iterator[tuple[str, bytes]]:
    drawings = {name: _drawn(figure, "svg") for name, figure in figures.items()}
    yield "comparison.json", (json.dumps(comparison, indent=1) + "\n").encode()
    yield "report.md", _markdown(tables, figures).encode()
    yield "report.html", _page(tables, drawings).encode()
    for table in tables:
        yield f"tables/{table.name}.csv", csv_text(table).encode()
        yield f"tables/{table.name}.tex", latex(table).encode()
    for name, figure in figures.items():
        yield f"figures/{name}.svg", drawings[name]
        yield f"figures/{name}.png", _drawn(figure, "png")


def _drawn(figure: Figure, form: str) -> bytes:
    out = io.BytesIO()
    # Without the date and with fixed ids, the same figures give the same bytes.
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "agentforge"}):
        figure.savefig(out, format=form, dpi=160, metadata={"Date": None} if form == "svg" else None)
    return out.getvalue()


def _markdown(tables: tuple[Table, ...], figures: Mapping[str, Figure]) -> str:
    pictures = [f"![{name}](figures/{name}.svg)\n" for name in figures]
    return "\n".join(["# Comparison", "", *map(markdown, tables), *pictures])


def _page(tables: tuple[Table, ...], drawings: Mapping[str, bytes]) -> str:
    figures = [
        f"<figure><figcaption>{escape(name)}</figcaption>{_inline(data)}</figure>"
        for name, data in drawings.items()
    ]
    body = "\n".join([*figures, *map(_html_table, tables)])
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Comparison</title>"
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>"
        f"<h1>Comparison</h1>{body}</html>\n"
    )


def _inline(svg: bytes) -> str:
    text = svg.decode()
    return text[text.index("<svg") :]


def _html_table(table: Table) -> str:
    head = "".join(f"<th scope=col>{escape(cell)}</th>" for cell in table.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return f"<h2>{escape(table.title)}</h2><table><tr>{head}</tr>{rows}</table>{note}"
