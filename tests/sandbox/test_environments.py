"""Environment images: built once with network, used without; the candidate's code is what runs."""

from __future__ import annotations

import asyncio
import secrets
import textwrap
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import ImageError
from agentforge.core.ports import Environment, EnvironmentSpec, TestRequest
from agentforge.core.report import Cause
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox import DockerSandbox, labels
from tests.sandbox.conftest import make_tree

pytestmark = pytest.mark.docker


def source_layout(salt: str) -> Tree:
    """A package in src/ with a dependency, an entry point and a module that its build generates."""
    pyproject = f"""
        [build-system]
        requires = ["setuptools>=64"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "sample-{salt}"
        version = "1.4.2"
        dependencies = ["six"]
        [project.optional-dependencies]
        test = ["iniconfig"]
        [tool.pytest.ini_options]
        addopts = "--no-such-option"
    """
    setup = """
        from pathlib import Path
        from setuptools import setup
        Path("src/sample/_generated.py").write_text("VALUE = 42\\n")
        setup()
    """
    tests = f"""
        from importlib.metadata import version
        import iniconfig, six, sample
        from sample import _generated
        def test_dependency(): assert sample.text("x") and six.PY3
        def test_metadata(): assert version("sample-{salt}") == "1.4.2"
        def test_generated(): assert _generated.VALUE == 42
        def test_path(): assert sample.__file__ == "/workspace/repo/src/sample/__init__.py"
    """
    return make_tree(
        {
            "pyproject.toml": textwrap.dedent(pyproject),
            "setup.py": textwrap.dedent(setup),
            "src/sample/__init__.py": "import six\ndef text(x):\n    return isinstance(x, str)\n",
            "tests/test_sample.py": textwrap.dedent(tests),
        }
    )


@pytest.fixture
def images(engine: Any) -> Any:
    """Environment images that the test makes, removed afterwards."""

    def ours() -> set[str]:
        return {
            image.id for image in engine.images.list(filters={"label": f"{labels.ROLE}={labels.ROLE_ENV}"})
        }

    before = ours()
    yield ours
    for image in ours() - before:
        engine.images.remove(image, force=True)


def test_af39_dependencies_are_installed_in_an_image_and_the_candidate_runs(
    sandbox: DockerSandbox, images: Any
) -> None:
    salt = secrets.token_hex(4)
    tree = source_layout(salt)

    async def scenario() -> None:
        environment = await sandbox.prepare(tree, EnvironmentSpec())
        made = images()
        report = await sandbox.run_tests(environment, tree, TestRequest())
        assert report.cause is Cause.OK, report
        assert len(report.passed) == 4, report.output
        assert "without the repository's addopts" in report.cause_detail
        assert any("extra test" in note for note in environment.notes)

        broken = tree.with_changes({"src/sample/__init__.py": TreeFile(b"def text(x):\n    return False\n")})
        again = await sandbox.prepare(broken, EnvironmentSpec())
        assert again == environment, "the same dependencies were built twice"
        assert images() == made
        report = await sandbox.run_tests(again, broken, TestRequest())
        assert report.failed == {"tests/test_sample.py::test_dependency"}

    asyncio.run(scenario())


def test_without_dependency_files_nothing_is_built(
    sandbox: DockerSandbox, base_image: str, images: Any
) -> None:
    tree = make_tree(
        {"src/pkg/__init__.py": "X = 1\n", "test_a.py": "import pkg\ndef test_a(): assert pkg.X\n"}
    )
    before = images()

    async def scenario() -> Environment:
        environment = await sandbox.prepare(tree, EnvironmentSpec())
        report = await sandbox.run_tests(environment, tree, TestRequest())
        assert report.passed == {"test_a.py::test_a"}, report.output
        return environment

    assert asyncio.run(scenario()).image == base_image
    assert images() == before


def test_a_failing_build_says_why_and_leaves_nothing(
    sandbox: DockerSandbox, engine: Any, images: Any
) -> None:
    salt = secrets.token_hex(6)
    tree = make_tree(
        {"requirements.txt": f"agentforge-no-such-{salt}\n", "test_a.py": "def test_a(): pass\n"}
    )
    before, containers = images(), build_containers(engine)
    with pytest.raises(ImageError) as caught:
        asyncio.run(sandbox.prepare(tree, EnvironmentSpec()))
    assert f"agentforge-no-such-{salt}" in caught.value.what
    assert "--setup" in caught.value.hint
    assert "--image" in caught.value.hint
    assert images() == before
    assert build_containers(engine) == containers


def build_containers(engine: Any) -> set[str]:
    filters = {"label": f"{labels.ROLE}={labels.ROLE_BUILD}"}
    return {one.id for one in engine.containers.list(all=True, filters=filters)}


def test_setup_commands_and_own_images(sandbox: DockerSandbox, base_image: str, images: Any) -> None:
    tree = make_tree(
        {"test_a.py": f"# {secrets.token_hex(4)}\ndef test_a(): assert open('made.txt').read()\n"}
    )

    async def scenario() -> None:
        environment = await sandbox.prepare(tree, EnvironmentSpec(setup=("echo yes > made.txt",)))
        report = await sandbox.run_tests(environment, tree, TestRequest())
        assert report.passed == {"test_a.py::test_a"}, report
        own = await sandbox.prepare(tree, EnvironmentSpec(image=base_image))
        assert own.image == base_image
        assert (await sandbox.run_tests(own, tree, TestRequest())).failed == {"test_a.py::test_a"}
        with pytest.raises(ImageError, match="not on this machine"):
            await sandbox.prepare(tree, EnvironmentSpec(image="agentforge-missing:0"))

    asyncio.run(scenario())


def test_a_build_keeps_no_secret_and_no_certificate(
    settings: SandboxSettings,
    engine: Any,
    images: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_id: str,
) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://user:hunter2@127.0.0.1:9/simple")
    tree = make_tree({"test_a.py": f"# {secrets.token_hex(4)}\ndef test_a(): pass\n"})
    sandbox = DockerSandbox(settings, run_id)
    environment = asyncio.run(
        sandbox.prepare(tree, EnvironmentSpec(setup=('test -n "$PIP_EXTRA_INDEX_URL"',)))
    )
    inspected = engine.api.inspect_image(environment.image)
    assert "hunter2" not in str(inspected)
    assert "hunter2" not in str(engine.images.get(environment.image).history())
    listing = engine.containers.run(
        environment.image, ["find", "/job", "/workspace", "-type", "f"], network_mode="none", remove=True
    )
    assert listing.strip() == b""
