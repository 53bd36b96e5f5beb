"""The five agents on a real released version of a real project, with a real bug of its time.

humanfriendly 8.2 puts a comma behind the minus sign (mended in 9.0). The model's answers are scripted;
the project, its environment image, the sandbox, the gate, the record and the replay are real.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.orchestrator.replay import replay_run
from tests.orchestrator.conftest import commit_all
from tests.support.model_server import ScriptedModel

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SDIST = ("humanfriendly", "humanfriendly-8.2.tar.gz")
SHA256 = "bf52ec91244819c780341a3438d5d7b09f431d3f113a475147ac9b7b167a3d12"
ISSUE = """Negative numbers get a comma right behind the minus sign

When the number of digits is a multiple of three, format_number counts the minus sign as one more
digit: minus one hundred becomes `-,100` where I expect `-100`. Other negative numbers are right.
"""
PLAN = json.dumps(
    {
        "explanation": "The sign is part of the text whose digits are grouped by three.",
        "steps": [
            {
                "id": "S1",
                "agent": "coder",
                "description": "group the digits without the sign and put the sign back",
                "files": ["humanfriendly/__init__.py"],
                "symbols": ["format_number"],
            }
        ],
    }
)
# The sign is lost: a plausible first answer, with line numbers that are off as models give them.
WRONG = """The sign must not take part in the grouping:

```diff
--- a/humanfriendly/__init__.py
+++ b/humanfriendly/__init__.py
@@ -340,5 +340,5 @@
     integer_part, _, decimal_part = str(float(number)).partition('.')
-    reversed_digits = ''.join(reversed(integer_part))
+    reversed_digits = ''.join(reversed(integer_part.lstrip('-')))
     parts = []
     while reversed_digits:
```
"""
RIGHT = """```diff
--- a/humanfriendly/__init__.py
+++ b/humanfriendly/__init__.py
@@ -359,5 +359,7 @@
         parts.append(reversed_digits[:3])
         reversed_digits = reversed_digits[3:]
     formatted_number = ''.join(reversed(','.join(parts)))
+    if integer_part.startswith('-'):
+        formatted_number = '-' + formatted_number
     decimals_to_add = decimal_part[:num_decimals].rstrip('0')
     if decimals_to_add:
```
"""
TESTS = """```python
from humanfriendly import format_number


def test_minus_one_hundred():
    assert format_number(-100) == '-100'


def test_plus_one_hundred():
    assert format_number(100) == '100'
```
"""
PASS = '{"verdict": "PASS", "reasons": ["the sign is kept apart from the digits"]}'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    fetch = [
        sys.executable,
        str(ROOT / "scripts" / "fetch_sdist.py"),
        *SDIST,
        SHA256,
        str(tmp_path / "sdist"),
    ]
    subprocess.run(fetch, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(tmp_path / "sdist" / SDIST[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    return commit_all(tmp_path / "humanfriendly-8.2")


@pytest.mark.timeout(600)
async def test_wrong_diff_debugger_critic_verified_patch_and_the_same_events_on_replay(
    project: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    replies = {"planner": [PLAN], "coder": [WRONG], "tester": [TESTS], "debugger": [RIGHT], "critic": [PASS]}
    with ScriptedModel(replies) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(project, settings, ISSUE)
        asked = [body["_agent"] for body in server.requests]
        again = await replay_run(run.result.run_id, settings, lambda event: None)
        assert len(server.requests) == len(asked)
    assert run.result.outcome == "verified", run.result.summary
    assert asked == ["planner", "coder", "tester", "debugger", "critic"]
    assert [event.decision.verdict.value for event in run.of_type("gate_decided")] == ["refused", "verified"]
    assert run.result.patch.files == ("humanfriendly/__init__.py",)
    assert b"+    if integer_part.startswith('-'):" in run.result.patch.diff
    assert again.replay_matches, again.difference
