"""What the agent gets of an instance: the tree without history, and an image that runs its candidates."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import ImageError
from agentforge.core.ports import EnvironmentSpec, Job, TestRequest
from agentforge.core.tree import TreeFile
from agentforge.evaluation.swebench.images import (
    check_engines_room,
    images_here,
    note_pulled,
    remove_pulled,
)
from agentforge.evaluation.swebench.instance import Premises, prepare, task_of
from agentforge.evaluation.swebench.rows import read_row
from agentforge.sandbox import DockerSandbox
from agentforge.sandbox.container import Guard
from agentforge.sandbox.engine import connect
from agentforge.sandbox.instance_image import _READ, agent_image, python_of, read_checkout, unpack_tree
from tests.evaluation.swebench.instances import AREA, FIXED, HIDDEN, SECRET, Project, git, row

LOOK = """for place in / /testbed /workspace/repo /opt/env; do ls -a $place; done
find / -xdev -name .git -o -xdev -name packed-refs 2>/dev/null
grep -rl the_hidden_case /testbed/ /workspace /opt /tmp /home /var /usr/local 2>/dev/null
ls -ld /testbed
"""


@pytest.mark.docker
async def test_af33_the_agents_tree_and_image_hold_no_later_history(
    project: Project, instance_image: str, tmp_path: Path
) -> None:
    settings = SandboxSettings()
    client = connect()
    try:
        with pytest.raises(ImageError, match="does not know the commit"):
            read_checkout(client, settings, instance_image, "0" * 40, Guard())
        checkout = read_checkout(client, settings, instance_image, project.base, Guard())
        image = agent_image(client, settings, instance_image, Guard(), print)
        assert agent_image(client, settings, instance_image, Guard(), pytest.fail) == image
        python = python_of(client, image)
        assert python >= (3, 11)
        with pytest.raises(ImageError, match="not on this machine"):
            agent_image(client, settings, "agentforge-test/none:latest", Guard(), print)
    finally:
        client.close()
    tree = checkout.tree
    # A clone gives the same tree, though its branches hold the fix.
    (tmp_path / "mirrors").mkdir()
    (tmp_path / "mirrors/demo__shapes").symlink_to(project.path)
    premises = Premises(settings, mirrors=tmp_path / "mirrors")
    instance = read_row(row(project, 1, instance_image), "here").instance
    prepared = await prepare(instance, premises, tmp_path, pytest.fail)
    assert (prepared.tree.digest, prepared.image) == (tree.digest, image)
    assert (prepared.python, prepared.pulled) == (python, False)
    assert checkout.head == project.base
    assert sorted(tree.files) == [
        ".gitignore",
        "latest",
        "run.sh",
        "src/shapes/__init__.py",
        "src/shapes/area.py",
        "tests/test_area.py",
    ]
    assert tree.files["run.sh"].mode == "100755"
    assert tree.files["latest"] == TreeFile(b"src/shapes/area.py", "120000")
    assert tree.files["src/shapes/area.py"].data == AREA.encode()
    sandbox = DockerSandbox(settings, "test-instance")
    try:
        environment = await sandbox.prepare(tree, EnvironmentSpec(image=image))
        seen = await sandbox.run_job(environment, tree, Job(argv=("sh", "-c", LOOK), timeout_s=60))
        assert "/testbed -> /workspace/repo" in seen.output
        assert "/.git\n" not in seen.output
        assert "packed-refs" not in seen.output
        assert "the_hidden_case" not in seen.output
        # What runs is the candidate, though the project is installed editable from the checkout.
        judge = tree.with_changes({"tests/test_area.py": TreeFile(HIDDEN.encode())})
        request = TestRequest(timeout_s=60)
        broken = await sandbox.run_tests(environment, judge, request)
        assert len(broken.failed) == 1
        assert len(broken.passed) == 1, broken.output
        mended = judge.with_changes({"src/shapes/area.py": TreeFile(FIXED.encode())})
        report = await sandbox.run_tests(environment, mended, request)
        assert not report.failed
        assert len(report.passed) == 2
        # An environment that is too old for our reporter is run as one command, told by test all the same.
        old = task_of(instance, "x", image, python=(3, 6))
        spec = EnvironmentSpec(image=image, test_command=old.test_command, junit=old.junit)
        as_command = await sandbox.run_tests(await sandbox.prepare(judge, spec), judge, request)
        assert any(SECRET in each for each in as_command.failed), as_command.output
        assert any("test_square" in each for each in as_command.passed)
        assert task_of(instance, "x", image, python=python).test_command is None
    finally:
        await sandbox.close()


def test_a_checkout_that_holds_later_work_is_refused(project: Project, tmp_path: Path) -> None:
    """The script alone, in a repository of our own."""

    def read(commit: str, *then: str) -> int:
        if then:
            subprocess.run(["git", *then], cwd=copy, check=True, capture_output=True)
        argv = ["sh", "-c", _READ, "sh", str(copy), commit]
        environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
        return subprocess.run(argv, env=environment, capture_output=True).returncode

    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "-q", str(project.path), str(copy)], check=True)
    own = ("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "m")
    assert read(project.base) == 0
    assert read("0" * 40) == 41
    later = git(copy, "rev-parse", "origin/later").strip()
    assert read(later) == 42, "an image of an earlier instance"
    assert read(project.base, *own) == 0, "as whoever made the image left it"
    assert read(project.base, *own) == 42


def test_a_damaged_archive_is_one_clear_error() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("a")
        member.pax_headers = {"GNU.sparse.map": "x,y", "GNU.sparse.size": "3"}
        archive.addfile(member)
    with pytest.raises(ImageError, match="damaged"):
        unpack_tree(buffer.getvalue(), "image")


@pytest.mark.docker
def test_only_what_the_batch_pulled_is_removed(instance_image: str, tmp_path: Path) -> None:
    pulled = f"{instance_image.partition(':')[0]}-pulled:latest"
    client = connect()
    try:
        client.images.get(instance_image).tag(pulled)
    finally:
        client.close()
    assert remove_pulled(tmp_path) == []
    note_pulled(tmp_path, pulled)
    note_pulled(tmp_path, "agentforge-test/gone:latest", pulled)
    names = [instance_image, pulled]
    assert images_here(names) == set(names)
    assert remove_pulled(tmp_path) == [pulled]
    assert images_here(names) == {instance_image}
    check_engines_room()
