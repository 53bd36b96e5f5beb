"""A benchmark instance of our own: a small repository with a later fix, and its image, made on the spot.

The package lies under `src`, is installed editable, and imports a module that its installation made:
what an agent runs must be its candidate all the same. The image holds the whole history, as published
ones may: the agent must not see it.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentforge.sandbox.engine import connect

SECRET = "the_hidden_case"
AREA = '''"""Areas of shapes."""

from shapes._generated import UNIT


def rectangle(width, height):
    return (width + height) * UNIT


def square(side):
    return side * side * UNIT
'''
FIXED = AREA.replace("width + height", "width * height")
TESTS = """from shapes.area import square


def test_square():
    assert square(3) == 9
"""
HIDDEN = f"""from shapes.area import rectangle, square


def test_square():
    assert square(3) == 9


def test_{SECRET}():
    assert rectangle(3, 5) == 15
"""
ISSUE = "rectangle gives a wrong area\n\n`rectangle(3, 5)` should be 15, it is 8.\n"
ACTIVATE = """conda() {
  if [ "$1" = activate ]; then export PATH="/opt/env/bin:$PATH" CONDA_DEFAULT_ENV="$2"; fi
}
"""
_IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
}
_DOCKERFILE = """FROM {base}
USER 0:0
COPY activate /opt/miniconda3/bin/activate
COPY testbed /testbed
RUN chown -R 0:0 /testbed && rm -rf /testbed/.git/hooks \
 && echo "UNIT = 1" > /testbed/src/shapes/_generated.py \
 && echo /testbed/src > "$(/opt/env/bin/python -c 'import site; print(site.getsitepackages()[0])')/shapes.pth"
STOPSIGNAL SIGKILL
CMD ["bash"]
"""
# Prints what the harness reads of pytest: loading pytest itself would be most of an instance's time, and on
# a busy machine an instance is to fail by its own slowness alone.
_RUNNER = """import sys
sys.path.insert(0, "src")
import tests.test_area as module
failed = 0
for name in [name for name in vars(module) if name.startswith("test_")]:
    try:
        vars(module)[name]()
    except AssertionError:
        failed = 1
        print("FAILED tests/test_area.py::" + name)
    else:
        print("PASSED tests/test_area.py::" + name)
sys.exit(failed)"""
_EVAL = """#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git config --global --add safe.directory /testbed
git checkout {base} tests/test_area.py
git apply -v - <<'EOF_114329324912'
{test_patch}
EOF_114329324912
: '>>>>> Start Test Output'
python -S - <<'EOF'
{runner}
EOF
: '>>>>> End Test Output'
git checkout {base} tests/test_area.py
"""


@dataclass(frozen=True)
class Project:
    """The repository on this host; `gold` and `test_patch` are diffs of its second commit."""

    path: Path
    base: str
    gold: str
    test_patch: str


def make_project(path: Path) -> Project:
    write(path / ".gitignore", "_generated.py\n__pycache__/\n")
    write(path / "src/shapes/__init__.py", "")
    write(path / "src/shapes/area.py", AREA)
    write(path / "tests/test_area.py", TESTS)
    write(path / "run.sh", "#!/bin/sh\nexec python -m pytest\n")
    (path / "run.sh").chmod(0o755)
    (path / "latest").symlink_to("src/shapes/area.py")
    git(path, "init", "-q", "-b", "main")
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "base")
    base = git(path, "rev-parse", "HEAD").strip()
    write(path / "src/shapes/area.py", FIXED)
    write(path / "tests/test_area.py", HIDDEN)
    git(path, "commit", "-qam", "the fix")
    gold = git(path, "diff", base, "HEAD", "--", "src")
    test_patch = git(path, "diff", base, "HEAD", "--", "tests")
    git(path, "branch", "later")
    git(path, "reset", "-q", "--hard", base)
    return Project(path, base, gold, test_patch)


def build_image(project: Project, name: str, base_image: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(project.path, "testbed")
        for file, text in (("Dockerfile", _DOCKERFILE.format(base=base_image)), ("activate", ACTIVATE)):
            header = tarfile.TarInfo(file)
            header.size = len(text)
            header.mode = 0o644
            archive.addfile(header, io.BytesIO(text.encode()))
    buffer.seek(0)
    client = connect()
    try:
        for event in client.api.build(
            fileobj=buffer, custom_context=True, tag=name, rm=True, forcerm=True, decode=True
        ):
            assert "error" not in event, event
    finally:
        client.close()


def row(project: Project, number: int, image: str) -> dict[str, Any]:
    """A row in the form that the harness 5.x reads."""
    return {
        "repo": "demo/shapes",
        "instance_id": f"demo__shapes-{number}",
        "base_commit": project.base,
        "patch": project.gold,
        "test_patch": project.test_patch,
        "problem_statement": ISSUE,
        "hints_text": "look at the operator",
        "created_at": "2024-01-01T00:00:00Z",
        "version": "1.0",
        "FAIL_TO_PASS": json.dumps([f"tests/test_area.py::test_{SECRET}"]),
        "PASS_TO_PASS": ["tests/test_area.py::test_square"],
        "environment_setup_commit": project.base,
        "image": image,
        "eval_script": _EVAL.format(
            base=project.base, test_patch=project.test_patch.rstrip("\n"), runner=_RUNNER
        ),
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
    }


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), "utf-8")
    return path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def git(path: Path, *arguments: str) -> str:
    environment = {**os.environ, **_IDENTITY, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *arguments], cwd=path, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout
