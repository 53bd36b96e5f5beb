"""The report holds the figures it was given, in every form, and nothing that acts."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from agentforge.cli.main import run
from agentforge.evaluation.contrast import compare
from agentforge.evaluation.report.tables import csv_text, latex, markdown, tables_of
from agentforge.evaluation.report.write import write_report
from agentforge.evaluation.trials import TrialRow


def trial(run_name: str, problem: str, trial_number: int, *, passed: bool, **more: Any) -> dict[str, Any]:
    return {
        "run": run_name,
        "problem": problem,
        "trial": trial_number,
        "passed": passed,
        "retries": 0 if passed else 2,
        "error_class": "none" if passed else "wrong_answer",
        "category": "a&b",
        "repository": "x/y",
        "wallclock": 2.0,
        **more,
    }


def records() -> list[dict[str, Any]]:
    return [
        trial(name, f"p{number}", repeat, passed=(number + (name == "two")) % 3 > 0, specialists=["dp"])
        for name in ("one", "two")
        for number in range(6)
        for repeat in range(2)
    ]


def comparison() -> dict[str, Any]:
    return compare([TrialRow.model_validate(record) for record in records()])


def test_every_table_has_the_same_cells_in_every_form() -> None:
    for table in tables_of(comparison()):
        parsed = list(csv.reader(io.StringIO(csv_text(table))))
        assert parsed == [list(table.header), *map(list, table.rows)]
        assert markdown(table).count("\n|") == len(table.rows) + 2
        assert latex(table).count(r"\\") == len(table.rows) + 1


def test_eg17_af42_the_report_is_whole_self_contained_and_the_same_every_time(tmp_path: Path) -> None:
    first = write_report(comparison(), tmp_path / "a")
    second = write_report(comparison(), tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    names = {path.relative_to(tmp_path / "a").as_posix() for path in first}
    assert {"report.md", "report.html", "comparison.json", "tables/paired.tex"} <= names
    assert {f"figures/{n}.svg" for n in ("pass_rate", "retries", "cost", "errors", "specialists")} <= names
    page = (tmp_path / "a" / "report.html").read_text()
    assert "<script" not in page
    assert "src=" not in page


def test_hostile_names_are_inert_in_page_markdown_and_latex(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>|\\input{/etc/passwd}"
    figures = compare([TrialRow.model_validate(trial(name, name, 0, passed=True))])
    write_report(figures, tmp_path)
    assert "<img" not in (tmp_path / "report.html").read_text()
    assert "<img" not in (tmp_path / "report.md").read_text()
    assert "\\input" not in (tmp_path / "tables" / "runs.tex").read_text()


def test_the_command_prints_one_document_and_refuses_duplicates(tmp_path: Path, capsys: Any) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps(records()))
    assert run(["compare", "--rows", str(rows), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["runs"]) == {"one", "two"}
    assert run(["compare", str(rows), "--rows", str(rows)]) == 2
    assert "duplicate rows" in capsys.readouterr().err
    assert run(["compare"]) == 2


def test_the_command_names_its_methods(tmp_path: Path, capsys: Any) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps(records()))
    assert run(["compare", str(rows)]) == 0
    out = capsys.readouterr().out
    assert "exact permutation" in out
    assert "percentile bootstrap over problems" in out
