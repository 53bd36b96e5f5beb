"""Seeded bugs in a real package (the one that pytest reads its own ini files with): found and taken back."""

from __future__ import annotations

from importlib import resources

import pytest

from agentforge.config.settings import SearchSettings
from agentforge.core.ports import Environment
from agentforge.core.task import Issue
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox import DockerSandbox
from agentforge.search.engine import SearchEngine
from agentforge.search.seeding import Mutant, killed, mutants, repaired, table, taken_back
from agentforge.search.source import Source
from tests.search.conftest import Clock

PLACE = "inifile/_parse.py"
SAMPLE, SEEDS, LINES = 3, 24, range(70, 161)
TESTS = """
import pytest
from inifile._parse import iscommentline, parse_ini_data
from inifile.exceptions import ParseError


def parsed(text, **options):
    return parse_ini_data("x.ini", text, strip_inline_comments=True, **options)


def test_sections_names_and_values():
    data, sources = parsed("[a]\\nx = 1\\n[b]\\ny: 2\\nz =\\n")
    assert data == {"a": {"x": "1"}, "b": {"y": "2", "z": ""}}
    assert sources == {("a", None): 0, ("a", "x"): 1, ("b", None): 2, ("b", "y"): 3, ("b", "z"): 4}


def test_continuation_and_comments():
    data, _ = parsed("# top\\n[a] ; section\\nx = 1 # one\\n  2 ; two\\n\\n; end\\n  3\\n")
    assert data == {"a": {"x": "1\\n2\\n3"}}


WRONG = ["x = 1\\n", "[a]\\n[a]\\n", "[a]\\nx=1\\nx=2\\n", "[a]\\nword\\n", "[]\\n", "  x\\n"]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_refused(text):
    with pytest.raises(ParseError):
        parsed(text)


def test_blanks_in_sections():
    assert parsed("[ a ]\\nx=1\\n", strip_section_whitespace=True)[0] == {"a": {"x": "1"}}
    assert parsed("[ a ]\\nx=1\\n")[0] == {" a ": {"x": "1"}}


@pytest.mark.parametrize("line, expected", [("# x", True), ("  ; x", True), ("x # y", False), ("", True)])
def test_comment_lines(line, expected):
    assert iscommentline(line) is expected
"""


def package() -> Tree:
    folder = resources.files("iniconfig")
    files = {
        "inifile/__init__.py": b"",
        PLACE: (folder / "_parse.py").read_bytes(),
        "inifile/exceptions.py": (folder / "exceptions.py").read_bytes(),
        "test_inifile.py": TESTS.encode(),
    }
    return Tree({path: TreeFile(data) for path, data in files.items()})


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(PLACE, package().read(PLACE).data)


@pytest.fixture(scope="module")
def made(source: Source) -> list[Mutant]:
    return mutants(source, LINES, each=1, most=SEEDS)


def test_a_mutant_is_labelled_by_what_takes_it_back(source: Source, made: list[Mutant]) -> None:
    assert len({mutant.operator for mutant in made}) == len(made) >= 6
    assert made[:2] == mutants(source, LINES, each=1, most=SEEDS // 4)[:2], "the sample is fixed"
    for mutant in made:
        back = taken_back(source, mutant.seed)
        assert back is not None
        wrong = mutant.seed.apply(source.data)
        assert wrong != source.data
        assert back.apply(wrong).split() == source.data.split()
        assert abs(back.line - mutant.seed.line) <= 2


@pytest.mark.docker
async def test_seeded_bugs_of_a_real_package_are_localized_and_repaired(
    sandbox: DockerSandbox, environment: Environment, source: Source, made: list[Mutant]
) -> None:
    tree = package()
    engine = SearchEngine(sandbox, SearchSettings(time_limit_s=600), lambda progress: None, Clock())
    right = await engine.diagnose(environment, tree, Issue(text=""), ["test_inifile.py"])
    assert not right.targets, "the copied sources pass these tests"
    noticed = await killed(sandbox, environment, tree, {PLACE: source}, made, right.observed, 120)
    assert len(noticed) >= SAMPLE
    settings = SearchSettings(time_limit_s=40, max_candidates=400)
    results = [
        await repaired(sandbox, environment, tree, mutant, test, settings, Clock())
        for mutant, test in noticed[:SAMPLE]
    ]
    found = table(results)["all"]
    assert found["bugs"] == SAMPLE
    assert found["top5"] >= SAMPLE - 1, results
    assert found["repaired"] >= 1, results
