"""docs/sandbox.md names tests as its evidence: they must exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_test_that_the_documentation_names_exists() -> None:
    text = (HERE.parents[1] / "docs" / "sandbox.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    sources = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    assert len(named) > 30
    assert {name for name in named if not re.search(rf"def {name}\(", sources)} == set()


def test_every_probe_that_the_documentation_names_exists() -> None:
    from tests.sandbox.test_escape import PROBES

    text = (HERE.parents[1] / "docs" / "sandbox.md").read_text(encoding="utf-8")
    listed = re.findall(r"`test_probe_is_refused` \(([^)]*)\)", text)
    names = {name for group in listed for name in re.findall(r"`([\w-]+)`", group)}
    assert names
    assert names <= set(PROBES)
