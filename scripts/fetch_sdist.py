"""Download one source distribution from the package index pip is set up for, checked by hash.

pip itself would run the project's build backend to read its metadata; here nothing of it is run.
Usage: fetch_sdist.py PROJECT FILE SHA256 FOLDER
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path


def index_url() -> str:
    """What pip would ask: its configuration (environment included), else its own default."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    found = re.search(r"(?m)^\S*[.:]index-url='([^']+)'", listed.stdout)
    if found and "extra" not in found.group(0).split("=")[0]:
        return found.group(1)
    from pip._internal.models.index import PyPI

    return str(PyPI.simple_url)


def link_of(project: str, file: str) -> str:
    page = f"{index_url().rstrip('/')}/{project}/"
    with urllib.request.urlopen(page, timeout=60) as answer:
        text = answer.read().decode("utf-8", "replace")
    found = re.search(rf'href="([^"]*/{re.escape(file)}(?:#[^"]*)?)"', text)
    if not found:
        raise SystemExit(f"{file} is not on the package index")
    return urllib.parse.urljoin(page, found.group(1))


def fetch(project: str, file: str, sha256: str, folder: Path) -> Path:
    target = folder / file
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(link_of(project, file), timeout=120) as answer:
            target.write_bytes(answer.read())
    actual = hashlib.sha256(target.read_bytes()).hexdigest()
    if actual != sha256:
        target.unlink()
        raise SystemExit(f"{file} has the hash {actual}, expected {sha256}")
    return target


if __name__ == "__main__":
    try:
        print(fetch(*sys.argv[1:4], Path(sys.argv[4])))
    except urllib.error.URLError as error:
        raise SystemExit(f"the package index cannot be reached: {error.reason}") from None
