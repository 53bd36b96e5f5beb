"""A repair worth watching: a plan of three steps, a first answer that breaks tests, a second that holds.

The model is scripted and streams word by word; everything else of the run is real.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.model_server import Reply

TITLE = "Splitting a bill loses cents"
ISSUE = f"""{TITLE}

`split(1000, 3)` returns three times 333: one cent is gone. The receipt then shows a total of 9.99
for a bill of 10.00, because it adds up the shares.
"""
FILES = {
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "shop/__init__.py": '"""Bills, and how they are shared."""\n',
    "shop/money.py": '''"""Amounts are whole cents."""


def with_tax(cents, percent):
    """The amount with tax, rounded half up."""
    return cents + (cents * percent + 50) // 100


def split(cents, people):
    """Equal shares; the first ones take what is left over."""
    if people < 1:
        raise ValueError("nobody to split with")
    share = cents // people
    return [share] * people


def euros(cents):
    """`12.05` for 1205."""
    return f"{cents // 100}.{cents % 100:02d}"
''',
    "shop/receipt.py": '''"""What is printed."""

from shop.money import euros, split


def settle(bill, people):
    """One line a person and the total."""
    shares = split(bill, people)
    lines = [f"person {number}: {euros(share)}" for number, share in enumerate(shares, 1)]
    total = sum(shares)
    return [*lines, f"total: {euros(total)}"]
''',
    "tests/test_money.py": """import pytest

from shop.money import euros, split, with_tax


@pytest.mark.parametrize("people", [1, 2, 4, 5, 8, 10])
def test_even_bills_split_evenly(people):
    assert split(4000, people) == [4000 // people] * people


@pytest.mark.parametrize(("cents", "percent", "wanted"), [(100, 20, 120), (5, 10, 6), (0, 19, 0)])
def test_tax_is_rounded_half_up(cents, percent, wanted):
    assert with_tax(cents, percent) == wanted


@pytest.mark.parametrize("people", [0, -1])
def test_nobody_cannot_share(people):
    with pytest.raises(ValueError, match="nobody"):
        split(100, people)


@pytest.mark.parametrize(("cents", "wanted"), [(0, "0.00"), (5, "0.05"), (1205, "12.05")])
def test_euros(cents, wanted):
    assert euros(cents) == wanted
""",
    "tests/test_receipt.py": """from shop.receipt import settle


def test_even_bill():
    assert settle(1000, 2) == ["person 1: 5.00", "person 2: 5.00", "total: 10.00"]


def test_one_person_pays_all():
    assert settle(999, 1) == ["person 1: 9.99", "total: 9.99"]
""",
}
PLAN = json.dumps(
    {
        "explanation": "split divides with // and never hands out the remainder, so the shares add up to "
        "less than the bill; the receipt then believes the shares instead of the bill.",
        "steps": [
            {
                "id": "S1",
                "agent": "coder",
                "description": "Hand out the remainder of the division, one cent each, to the first people",
                "files": ["shop/money.py"],
                "symbols": ["split"],
            },
            {
                "id": "S2",
                "agent": "coder",
                "description": "Print the bill itself as the total, not the sum of the shares",
                "files": ["shop/receipt.py"],
                "symbols": ["settle"],
                "depends_on": ["S1"],
            },
            {
                "id": "S3",
                "agent": "tester",
                "description": "A test that fails while a cent is lost",
                "files": [],
                "symbols": [],
                "depends_on": ["S1"],
            },
        ],
    },
    indent=2,
)
WRONG = """The remainder has to go somewhere, and the simplest way is to round every share up:

```diff
--- a/shop/money.py
+++ b/shop/money.py
@@ -11,5 +11,5 @@
     if people < 1:
         raise ValueError("nobody to split with")
     share = cents // people
-    return [share] * people
+    return [share + 1] * people
```
"""
AT_ONCE = """Only as many people as there are cents left over may pay one more:

```diff
--- a/shop/money.py
+++ b/shop/money.py
@@ -11,5 +11,5 @@
     if people < 1:
         raise ValueError("nobody to split with")
-    share = cents // people
-    return [share] * people
+    share, left = divmod(cents, people)
+    return [share + 1] * left + [share] * (people - left)
```
"""
RECEIPT = """The total of a receipt is the bill; the shares only say who pays what.

```diff
--- a/shop/receipt.py
+++ b/shop/receipt.py
@@ -7,5 +7,4 @@
     \"\"\"One line a person and the total.\"\"\"
     shares = split(bill, people)
     lines = [f"person {number}: {euros(share)}" for number, share in enumerate(shares, 1)]
-    total = sum(shares)
-    return [*lines, f"total: {euros(total)}"]
+    return [*lines, f"total: {euros(bill)}"]
```
"""
RIGHT = """Rounding every share up overcharges even bills: `split(4000, 4)` became four times 1001. \
Only as many people as there are cents left over may pay one more:

```diff
--- a/shop/money.py
+++ b/shop/money.py
@@ -11,5 +11,5 @@
     if people < 1:
         raise ValueError("nobody to split with")
-    share = cents // people
-    return [share + 1] * people
+    share, left = divmod(cents, people)
+    return [share + 1] * left + [share] * (people - left)
```
"""
TESTS = """```python
from shop.money import split
from shop.receipt import settle


def test_no_cent_is_lost():
    assert sum(split(1000, 3)) == 1000


def test_the_first_ones_take_what_is_left_over():
    assert split(1000, 3) == [334, 333, 333]


def test_the_total_is_the_bill():
    assert settle(1000, 3)[-1] == "total: 10.00"
```
"""
VERDICT = json.dumps(
    {
        "verdict": "PASS",
        "reasons": ["every cent is handed out", "even bills are split as before", "no test was changed"],
    }
)


def make_files(folder: Path, files: dict[str, str]) -> Path:
    """A git repository of one commit."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
        subprocess.run([*git, *command], check=True)
    return folder


def make_repository(folder: Path) -> Path:
    """The shop."""
    return make_files(folder, FILES)


@dataclass
class Pace:
    """Seconds between two words, by agent; changed while the model is at work."""

    delay_s: float = 0.0
    by_agent: dict[str, float] = field(default_factory=dict)
    instead: dict[str, Reply] = field(default_factory=dict)
    """Other answers than the scenario's, by agent."""
    at_once: bool = False
    """The first answer holds, which spares the debug round."""

    def reset(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.at_once = False
        self.by_agent.clear()
        self.instead.clear()


def script(pace: Pace) -> Callable[[dict[str, Any]], Reply]:
    """Answers any number of runs of this scenario."""
    texts = {"planner": PLAN, "tester": TESTS, "debugger": RIGHT, "critic": VERDICT}

    def answer(body: dict[str, Any]) -> Reply:
        agent = str(body["_agent"])
        if agent in pace.instead:
            return pace.instead[agent]
        asked = str(body["messages"][-1]["content"])
        first = AT_ONCE if pace.at_once else WRONG
        coder = RECEIPT if "To do now: Print the bill itself" in asked else first
        return Reply(texts.get(agent, coder), delay_s=pace.by_agent.get(agent, pace.delay_s))

    return answer
