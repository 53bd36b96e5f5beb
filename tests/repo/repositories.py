"""Real git repositories for tests, made with plain git and a configuration of their own."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.invalid",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.invalid",
}


def git(folder: Path, *args: str, stdin: bytes = b"") -> str:
    """Plain git, as a user would run it."""
    command = ["git", "-c", "protocol.file.allow=always", *args]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def commit(root: Path, message: str = "a commit") -> str:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--no-verify", "-m", message)
    return git(root, "rev-parse", "HEAD")


def make_repository(root: Path, files: dict[str, bytes] | None = None) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    write(root, files or {"src/calc.py": b"def add(a, b):\n    return a - b\n", "README.md": b"calc\n"})
    commit(root)
    return root


def snapshot(root: Path) -> dict[str, tuple[str, int, int]]:
    """Digest, mode and change time of everything under `root`, links not followed."""
    found = {}
    for place in sorted(root.rglob("*")):
        status = place.lstat()
        if place.is_symlink():
            digest = str(place.readlink())
        elif place.is_file():
            digest = hashlib.sha256(place.read_bytes()).hexdigest()
        else:
            digest = "folder"
        found[str(place.relative_to(root))] = (digest, status.st_mode, status.st_mtime_ns)
    return found
