"""`agentforge workflow`: list, show, check, draw."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agentforge.cli.main import run
from agentforge.core.errors import ExitCode
from agentforge.orchestrator.workflow_load import shipped_workflows

BROKEN = """name: x
start: environmnt
loops: {again: 3}
edges:
  - {from: environment, to: baseline}
  - {from: baseline, to: end, when: verifed}
"""


def test_list_names_every_shipped_workflow_with_its_hash(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["workflow", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [flow["name"] for flow in found] == list(shipped_workflows())
    assert len({flow["hash"] for flow in found}) == len(found)


def test_check_names_every_problem_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(BROKEN)
    assert run(["workflow", "check", str(path)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert f"{path}:2: unknown node 'environmnt'; did you mean environment?" in said
    assert f"{path}:3: loop 'again' has no effect" in said
    assert f"{path}:6: unknown predicate 'verifed'" in said


def test_check_of_a_good_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nextends: agentforge\nwithout: [critic]\n")
    assert run(["workflow", "check", str(path)]) == 0
    assert "holds" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["agentforge", "cascade"])
def test_draw_as_svg_is_one_picture_with_every_node(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["workflow", "draw", name, "--format", "svg"]) == 0
    text = capsys.readouterr().out
    root = ElementTree.fromstring(text)
    words = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"environment", "explain", "gate"} <= words
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_draw_as_mermaid_dots_the_loops(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["workflow", "draw", "retry"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("flowchart TD")
    assert 'gate_ -.->|"not_stuck, again"| debug_' in text


def test_an_ablation_shows_the_graph_that_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["workflow", "show", "no-planner"]) == 0
    text = capsys.readouterr().out
    assert "plan" not in [word for line in text.splitlines()[1:] for word in line.split()]
    assert "facts -> code" in text
