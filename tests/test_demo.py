"""`make demo` as a newcomer runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_repairs_the_example_and_a_real_released_bug_without_a_model(tmp_path: Path) -> None:
    env = {**os.environ, "VENV": sys.prefix, "DEMO_DIR": str(tmp_path / "demo")}
    done = subprocess.run(
        [str(ROOT / "scripts" / "demo.sh")], capture_output=True, text=True, env=env, timeout=850, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    data = tmp_path / "demo" / "data" / "runs"
    manifests = [json.loads((run / "run.json").read_text()) for run in sorted(data.iterdir())]
    assert [manifest["outcome"] for manifest in manifests] == ["verified", "verified"]
    assert all(not manifest["models"] and manifest["spend"]["calls"] == 0 for manifest in manifests)
    patch = (tmp_path / "demo" / "boltons.diff").read_text()
    assert "-        if abs_bytes <= next_size:\n+        if abs_bytes < next_size:\n" in patch


def test_a_download_with_another_hash_is_refused_and_removed(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"not what was wanted")
    command = [
        sys.executable,
        str(ROOT / "scripts" / "fetch_sdist.py"),
        "a",
        "a.tar.gz",
        "0" * 64,
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "expected 0000" in done.stderr
    assert not (tmp_path / "a.tar.gz").exists()
