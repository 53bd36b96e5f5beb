"""A workflow as a picture: Mermaid for pages, SVG for everything else (a small layered layout)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from agentforge.orchestrator.workflow import END, MAIN, Edge, Workflow, WorkflowFile

WIDTH, HEIGHT = 132, 34
GAP_X, GAP_Y = 60, 46
MARGIN = 24


def mermaid(workflow: Workflow) -> str:
    """A flowchart; loop edges are dotted. The stages of a cascade are subgraphs, one after another."""
    lines = ["flowchart TD"]
    if not workflow.stages:
        return "\n".join([*lines, *_graph_lines(workflow.file, "")]) + "\n"
    for number, stage in enumerate(workflow.stages):
        lines.append(f'  subgraph s{number}["{stage.name}"]')
        lines += [f"  {line}" for line in _graph_lines(stage.workflow.file, f"s{number}_")]
        lines.append("  end")
    last = len(workflow.stages) - 1
    lines += [f"  s{number} -- not verified --> s{number + 1}" for number in range(last)]
    return "\n".join(lines) + "\n"


def _graph_lines(file: WorkflowFile, prefix: str) -> Iterator[str]:
    for name in vertices(file):
        shape = "([end])" if name == END else f'["{_caption(file, name)}"]'
        yield f"  {prefix}{_word(name)}{shape}"
    for edge in file.edges:
        label, arrow = edge_label(edge), "-.->" if edge.loop else "-->"
        text = f'|"{label}"|' if label else ""
        yield f"  {prefix}{_word(edge.source)} {arrow}{text} {prefix}{_word(edge.target)}"


def _word(name: str) -> str:
    """`end` is a word of Mermaid's own."""
    return "".join(letter if letter.isalnum() else "_" for letter in name) + "_"


def _caption(file: WorkflowFile, name: str) -> str:
    use = file.nodes.get(name)
    if use is not None and use.parallel:
        return " | ".join(" , ".join(branch) for branch in use.parallel)
    return name


def edge_label(edge: Edge) -> str:
    loop = "" if not edge.loop else "again" if edge.loop == MAIN else f"again: {edge.loop}"
    return ", ".join(part for part in (edge.when, loop) if part)


def vertices(file: WorkflowFile) -> tuple[str, ...]:
    """Every name of the graph, in the order in which the file leads to it; the end last."""
    names = [file.start, *(name for edge in file.edges for name in (edge.source, edge.target))]
    return (*dict.fromkeys(name for name in names if name != END), END)


def layers(file: WorkflowFile) -> dict[str, int]:
    """The row of each vertex: one below the lowest that leads to it, loop edges aside."""
    forward = [edge for edge in file.edges if not edge.loop]
    rows = dict.fromkeys(vertices(file), 0)
    for _ in rows:
        for edge in forward:
            rows[edge.target] = max(rows[edge.target], rows[edge.source] + 1)
    return rows


def svg(workflow: Workflow) -> str:
    """A picture that stands alone: no script, no outside resource."""
    parts: list[str] = []
    top, width = MARGIN, 0
    for title, file in _pictures(workflow):
        if title:
            parts.append(f'<text class="stage" x="{MARGIN}" y="{top + 12}">{escape(title)}</text>')
            top += 26
        drawing, wide, high = _picture(file, top)
        parts += drawing
        top, width = top + high + MARGIN, max(width, wide)
    return "\n".join([_head(width + MARGIN, top), *parts, "</svg>", ""])


def _pictures(workflow: Workflow) -> Iterator[tuple[str, WorkflowFile]]:
    if not workflow.stages:
        yield "", workflow.file
    for stage in workflow.stages:
        yield stage.name, stage.workflow.file


def _head(width: int, height: int) -> str:
    style = (
        "text{font:12px sans-serif;fill:#222}.stage{font-weight:bold}.when{font-size:10px;fill:#555}"
        "rect{fill:#f4f6fb;stroke:#5b6b8c}path{fill:none;stroke:#5b6b8c}.loop{stroke-dasharray:4 3}"
    )
    marker = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 8 4 0 8z" style="fill:#5b6b8c"/></marker></defs>'
    )
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    paper = f'<rect width="{width}" height="{height}" style="fill:#fff;stroke:none"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{style}</style>{marker}{paper}'


def _picture(file: WorkflowFile, top: int) -> tuple[list[str], int, int]:
    """The drawn graph, how wide and how high it is."""
    rows = layers(file)
    places: dict[str, tuple[int, int]] = {}
    counts: dict[int, int] = {}
    for name in vertices(file):
        row = rows[name]
        column = counts.get(row, 0)
        counts[row] = column + 1
        places[name] = (MARGIN + column * (WIDTH + GAP_X), top + row * (HEIGHT + GAP_Y))
    drawn = [line for name, place in places.items() for line in _box(_caption(file, name), place)]
    wide = max(counts.values()) * (WIDTH + GAP_X) + MARGIN
    skipping = 0
    for edge in file.edges:
        straight = rows[edge.target] == rows[edge.source] + 1 and not edge.loop
        skipping += not straight
        lane = 0 if straight else wide + skipping * 14
        drawn += _arrow(edge, places, lane)
    high = (max(rows.values()) + 1) * (HEIGHT + GAP_Y)
    return drawn, wide + skipping * 14 + 130, high


def _box(caption: str, place: tuple[int, int]) -> Sequence[str]:
    x, y = place
    middle = f'x="{x + WIDTH // 2}" y="{y + HEIGHT // 2 + 4}" text-anchor="middle"'
    return (
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f"<text {middle}>{escape(caption)}</text>",
    )


def _arrow(edge: Edge, places: dict[str, tuple[int, int]], lane: int) -> Sequence[str]:
    """A line to the next row; everything else takes a lane of its own at the right."""
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    kind = ' class="loop"' if edge.loop else ""
    if not lane:
        start, end = (x1 + WIDTH // 2, y1 + HEIGHT), (x2 + WIDTH // 2, y2)
        path = f"M{start[0]} {start[1]} L{end[0]} {end[1]}"
        at = ((start[0] + end[0]) // 2 + 6, (start[1] + end[1]) // 2)
    else:
        out, into = y1 + HEIGHT // 2 + 6, y2 + HEIGHT // 2 - 6
        path = f"M{x1 + WIDTH} {out} H{lane} V{into} H{x2 + WIDTH}"
        at = (x1 + WIDTH + 6, out - 4)
    label = escape(edge_label(edge))
    drawn = [f'<path{kind} d="{path}" marker-end="url(#tip)"/>']
    return [*drawn, f'<text class="when" x="{at[0]}" y="{at[1]}">{label}</text>'] if label else drawn
