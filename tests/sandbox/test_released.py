"""Released projects as they are: installed by our detection, their own suites judged as by plain pytest."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from agentforge.core.ports import EnvironmentSpec, Job, TestRequest
from agentforge.core.report import Cause
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox import DockerSandbox

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
HUMANIZE = ("humanize", "4.8.0", "9783373bf1eec713a770ecaa7c2d7a7902c98398009dfa3d8a2df91eec9311e8")
ITERTOOLS = (
    "more-itertools",
    "10.1.0",
    "626c369fa0eb37bac0291bce8259b332fd59ac792fa5497b59837309cd5b114a",
)


def released(project: str, version: str, sha256: str, folder: Path) -> Tree:
    """The files of a source distribution, fetched, checked, and never unpacked to disk."""
    script, file = ROOT / "scripts" / "fetch_sdist.py", f"{project}-{version}.tar.gz"
    subprocess.run([sys.executable, script, project, file, sha256, folder], check=True, capture_output=True)
    with tarfile.open(folder / file) as archive:
        return Tree(
            {
                member.name.split("/", 1)[1]: TreeFile(stream.read())
                for member in archive.getmembers()
                if member.isfile() and (stream := archive.extractfile(member)) is not None
            }
        )


def plain_outcomes(junit: bytes) -> dict[tuple[str, str], str]:
    """Outcome by class name and test name, as pytest's own report says it."""
    found = {}
    for case in ElementTree.fromstring(junit).iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        expected = [child.get("type") == "pytest.xfail" for child in case if child.tag == "skipped"]
        word = {"failure": "failed", "error": "error", "skipped": "skipped"}[kinds[0]] if kinds else "passed"
        found[case.get("classname", ""), case.get("name", "")] = "xfailed" if any(expected) else word
    return found


def junit_key(test: str) -> tuple[str, str]:
    path, _, rest = test.partition("::")
    *classes, name = rest.partition("[")[0].split("::")
    module = path.removesuffix(".py").replace("/", ".")
    return ".".join((module, *classes)), name + rest.partition("[")[1] + rest.partition("[")[2]


@pytest.mark.parametrize(
    ("release", "layout", "at_least"),
    [(HUMANIZE, "src/humanize/__init__.py", 500), (ITERTOOLS, "more_itertools/__init__.py", 500)],
    ids=["src-layout", "flat-layout"],
)
def test_a_released_project_and_its_own_suite(
    sandbox: DockerSandbox, tmp_path: Path, release: tuple[str, str, str], layout: str, at_least: int
) -> None:
    tree = released(*release, tmp_path)
    assert tree.kind(layout) == "file"

    async def scenario() -> None:
        environment = await sandbox.prepare(tree, EnvironmentSpec())
        assert any("the project, editable" in note for note in environment.notes), environment.notes
        report = await sandbox.run_tests(environment, tree, TestRequest(timeout_s=240))
        assert report.cause is Cause.OK, (report.cause_detail, report.output[-2000:])
        plain = Job(
            (*environment.test_command, "-p", "no:cacheprovider", "--junitxml=/job/out/junit.xml"),
            results=("junit.xml",),
            timeout_s=240,
        )
        told = await sandbox.run_job(environment, tree, plain)
        assert told.cause is Cause.OK, told.output[-2000:]
        expected = plain_outcomes(told.files["junit.xml"])
        ours = {junit_key(test): outcome.value for test, outcome in report.outcomes.items()}
        assert ours == expected
        assert len(report.outcomes) == len(ours) >= at_least, "two tests fell together"
        assert report.exit_code == told.exit_code

    asyncio.run(scenario())
