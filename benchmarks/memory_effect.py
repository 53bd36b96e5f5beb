# ruff: noqa: E501  the table of bugs reads best with one issue a line
"""Does memory help? Twenty-five small related bugs, one after the other, with memory on and off.

    python benchmarks/memory_effect.py [--out FILE]

Five families of five bugs: within a family the failure and the kind of the right edit are alike, names and
domain are not. A scripted repairer, no language model, sees the issue and the faulty line; it tries one
edit of each kind, in an order, at most `ATTEMPTS` times, and each try is judged by running the bug's
checks. Off: the order is always the same. On: the kinds of the edits in what memory gives (insights, then
episodes, by rank) come first, kinds of remembered failed attempts last. Verified fixes are stored, as in a
run. Order of bugs: shuffled with fixed seeds, so that families mix. Tokens: issue, code and answer at each
attempt, and what memory shows once a bug, as in a run, where the planner alone sees it and within its budget
(`agents/recall.py`). The repairer is ideal in one way: it makes the right edit when it tries the right kind;
so this measures what memory adds to the choice, not what a model makes of it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from agentforge import __version__
from agentforge.agents.recall import recall
from agentforge.core.retrieval import Episode, FailedAttempt, Retrieved
from agentforge.memory import editkinds as kinds
from agentforge.memory.episodes import EpisodeStore, warnings_of
from agentforge.memory.open import open_episodes, open_insights
from agentforge.models.ledger import estimate_tokens

HERE = Path(__file__).parent
SEEDS = (1, 2, 3)
ATTEMPTS = 3
K = 5
ORDER = (
    kinds.RETURN,
    kinds.ARGUMENT,
    kinds.NAME,
    kinds.LITERAL,
    kinds.COMPARISON,
    kinds.GUARD,
    kinds.HANDLER,
)


@dataclass(frozen=True)
class Bug:
    """`line` is the faulty line of `code`; `checks` are expressions that must be true after the repair."""

    name: str
    family: str
    failure: str
    issue: str
    code: str
    line: str
    checks: tuple[str, ...]


def _bug(family: str, failure: str, issue: str, code: str, line: str, *checks: str) -> Bug:
    match = re.search(r"def (\w+)", code)
    return Bug(match[1] if match else "", family, failure, issue, code, line, checks)


_NONE = "TypeError: 'NoneType' object"
BUGS = (
    _bug("guard", "TypeError", f"greeting crashes for visitors without a name\n{_NONE} is not iterable",
         "def greet(name):\n    return 'Hi ' + ''.join(name)\n", "return 'Hi ' + ''.join(name)",
         "greet('Al') == 'Hi Al'", "greet(None) is None"),
    _bug("guard", "TypeError", f"length of an empty basket\n{_NONE} of type has no len()",
         "def basket_size(items):\n    return len(items)\n", "return len(items)",
         "basket_size([1]) == 1", "basket_size(None) is None"),
    _bug("guard", "TypeError", f"tag list fails when tags were never set\n{_NONE} is not iterable",
         "def tag_line(tags):\n    return ', '.join(sorted(tags))\n", "return ', '.join(sorted(tags))",
         "tag_line(['b', 'a']) == 'a, b'", "tag_line(None) is None"),
    _bug("guard", "TypeError", f"mean temperature without readings\n{_NONE} is not iterable",
         "def mean(readings):\n    return sum(readings) / len(readings)\n",
         "return sum(readings) / len(readings)", "mean([1, 3]) == 2", "mean(None) is None"),
    _bug("guard", "TypeError", f"sorting the missing queue\n{_NONE} is not iterable",
         "def ordered(queue):\n    return sorted(queue)\n", "return sorted(queue)",
         "ordered([2, 1]) == [1, 2]", "ordered(None) is None"),
    _bug("comparison", "IndexError", "the last page is one too far\nIndexError: list index out of range",
         "def page(pages, n):\n    if n <= len(pages):\n        return pages[n]\n    return ''\n",
         "if n <= len(pages):", "page(['a'], 0) == 'a'", "page(['a'], 1) == ''"),
    _bug("comparison", "IndexError", "seat number equal to the row length\nIndexError: list index out of range",
         "def seat(row, number):\n    if number <= len(row):\n        return row[number]\n    return None\n",
         "if number <= len(row):", "seat([7], 0) == 7", "seat([7], 1) is None"),
    _bug("comparison", "IndexError", "next track at the end of the playlist\nIndexError: list index out of range",
         "def track(songs, at):\n    while at <= len(songs):\n        return songs[at]\n    return 'end'\n",
         "while at <= len(songs):", "track(['x'], 0) == 'x'", "track(['x'], 1) == 'end'"),
    _bug("comparison", "IndexError", "column beyond the table\nIndexError: tuple index out of range",
         "def column(cells, i):\n    if i <= len(cells):\n        return cells[i]\n    return 0\n",
         "if i <= len(cells):", "column((4,), 0) == 4", "column((4,), 1) == 0"),
    _bug("comparison", "IndexError", "character after the end of a word\nIndexError: string index out of range",
         "def letter(word, k):\n    if k <= len(word):\n        return word[k]\n    return '-'\n",
         "if k <= len(word):", "letter('q', 0) == 'q'", "letter('q', 1) == '-'"),
    _bug("literal", "AssertionError", "weeks are a day short\nAssertionError: 6 days in a week",
         "def days(weeks):\n    return weeks * 6\n", "return weeks * 6", "days(2) == 14"),
    _bug("literal", "AssertionError", "minutes per hour are off by one\nAssertionError: 59 minutes in an hour",
         "def minutes(hours):\n    return hours * 59\n", "return hours * 59", "minutes(1) == 60"),
    _bug("literal", "AssertionError", "a year lacks a month\nAssertionError: 11 months in a year",
         "def months(years):\n    return years * 11\n", "return years * 11", "months(2) == 24"),
    _bug("literal", "AssertionError", "cube has too few faces\nAssertionError: 5 faces on a cube",
         "def faces(cubes):\n    return cubes * 5\n", "return cubes * 5", "faces(1) == 6"),
    _bug("literal", "AssertionError", "a dozen holds eleven eggs\nAssertionError: 11 eggs in a dozen",
         "def eggs(dozens):\n    return dozens * 11\n", "return dozens * 11", "eggs(1) == 12"),
    _bug("name", "ValueError", "width is used where height is meant\nValueError: wrong area",
         "def area(width, height):\n    return width * width\n", "return width * width", "area(2, 3) == 6"),
    _bug("name", "ValueError", "the share uses its part twice\nValueError: wrong share",
         "def share(part, total):\n    return part / part\n", "return part / part", "share(1, 4) == 0.25"),
    _bug("name", "ValueError", "speed divides distance by itself\nValueError: wrong speed",
         "def speed(distance, duration):\n    return distance / distance\n", "return distance / distance",
         "speed(6, 3) == 2"),
    _bug("name", "ValueError", "difference of old and old\nValueError: wrong growth",
         "def growth(old, new):\n    return old - old\n", "return old - old", "growth(5, 3) == 2"),
    _bug("name", "ValueError", "price times price instead of count\nValueError: wrong bill",
         "def bill(price, count):\n    return price * price\n", "return price * price", "bill(2, 5) == 10"),
    _bug("handler", "KeyError", "unknown colours end the drawing\nKeyError: 'mauve'",
         "def colour(table, name):\n    return table[name]\n", "return table[name]",
         "colour({'a': 1}, 'a') == 1", "colour({}, 'mauve') is None"),
    _bug("handler", "KeyError", "a missing setting stops the start\nKeyError: 'port'",
         "def setting(values, key):\n    return values[key]\n", "return values[key]",
         "setting({'p': 2}, 'p') == 2", "setting({}, 'port') is None"),
    _bug("handler", "KeyError", "users without a role cannot log in\nKeyError: 'guest'",
         "def role(roles, user):\n    return roles[user]\n", "return roles[user]",
         "role({'u': 3}, 'u') == 3", "role({}, 'guest') is None"),
    _bug("handler", "KeyError", "price of an article that left the shop\nKeyError: 'lamp'",
         "def price(prices, article):\n    return prices[article]\n", "return prices[article]",
         "price({'x': 4}, 'x') == 4", "price({}, 'lamp') is None"),
    _bug("handler", "KeyError", "translation of a new word\nKeyError: 'hello'",
         "def translate(words, word):\n    return words[word]\n", "return words[word]",
         "translate({'y': 5}, 'y') == 5", "translate({}, 'hello') is None"),
)  # fmt: skip


def edits(bug: Bug, kind: str) -> Iterator[str]:
    """The code with its faulty line edited in the way of `kind`; nothing where that is not possible."""
    indent = re.search(rf"^( *){re.escape(bug.line)}$", bug.code, re.MULTILINE)
    space = indent[1] if indent else ""
    names = re.findall(r"\w+", bug.code.partition("(")[2].partition(")")[0])
    lines = {
        kinds.RETURN: lambda: "return None" if bug.line.startswith("return") else "",
        kinds.ARGUMENT: lambda: re.sub(r"\((\w+)\)", r"(list(\1))", bug.line, count=1),
        kinds.NAME: lambda: bug.line[::-1].replace(names[0][::-1], names[-1][::-1], 1)[::-1],
        kinds.LITERAL: lambda: re.sub(r"\b(\d+)\b", lambda match: str(int(match[1]) + 1), bug.line, count=1),
        kinds.COMPARISON: lambda: bug.line.replace("<=", "<"),
        kinds.GUARD: lambda: f"if {names[0]} is None:\n{space}    return None\n{space}{bug.line}",
        kinds.HANDLER: lambda: (
            f"try:\n{space}    {bug.line}\n{space}except LookupError:\n{space}    return None"
            if bug.line.startswith("return")
            else ""
        ),
    }
    line = lines[kind]()
    if line and line != bug.line:
        yield bug.code.replace(bug.line, line)


def passes(bug: Bug, code: str) -> bool:
    """Run the checks. The programs are this file's own."""
    space: dict[str, Any] = {}
    try:
        exec(code, space)  # noqa: S102
        return all(eval(check, space) for check in bug.checks)  # noqa: S307
    except (TypeError, LookupError, ValueError, NameError, AttributeError, SyntaxError):
        return False


def patch(bug: Bug, code: str) -> str:
    before, after = bug.code.splitlines(keepends=True), code.splitlines(keepends=True)
    return "".join(unified_diff(before, after, f"a/{bug.name}.py", f"b/{bug.name}.py"))


@dataclass
class Outcome:
    """What one bug took."""

    solved: bool
    attempts: int
    tokens: int
    memory_tokens: int = 0
    hit_1: bool = False
    hit_k: bool = False
    could_hit: bool = False


def run(bugs: list[Bug], home: Path, *, memory: bool) -> list[Outcome]:
    """All bugs in order; with `memory` each verified fix is there for the next ones."""
    episodes, insights = open_episodes(home), open_insights(home)
    families: dict[str, str] = {}
    outcomes = []
    for bug in bugs:
        order, outcome = list(ORDER), Outcome(False, 0, 0)
        if memory:
            order = _remembered(bug, episodes, insights, families, outcome)
        failed = []
        for kind in order:
            code = next(edits(bug, kind), None)
            if code is None:
                continue
            outcome.attempts += 1
            outcome.tokens += sum(map(estimate_tokens, (bug.issue, bug.code, code)))
            if passes(bug, code):
                outcome.solved = True
                if memory:
                    fix = Episode(
                        id="", repository="bench", issue=bug.issue, patch=patch(bug, code),
                        failures=(bug.failure,), attempts=tuple(failed),
                    )  # fmt: skip
                    families[episodes.store(fix).id] = bug.family
                    insights.refresh(episodes.list())
                break
            failed.append(FailedAttempt(patch=patch(bug, code), reason="a check fails"))
            if outcome.attempts == ATTEMPTS:
                break
        outcomes.append(outcome)
    return outcomes


def _remembered(
    bug: Bug, episodes: EpisodeStore, insights: Any, families: dict[str, str], outcome: Outcome
) -> list[str]:
    found = episodes.search(bug.issue, K)
    lessons = insights.search(bug.issue, K)
    same = [families[one.id] == bug.family for one in found]
    outcome.could_hit = bug.family in families.values()
    outcome.hit_1, outcome.hit_k = bool(same[:1] and same[0]), any(same)
    first = [lesson.edit for lesson in lessons if lesson.edit]
    first += [kind for one in found for kind in kinds.edit_kinds(one.patch)]
    known = list(dict.fromkeys(kind for kind in first if kind in ORDER))
    warned = [k for one in found for tried in one.attempts for k in kinds.edit_kinds(tried.patch)]
    rest = [kind for kind in ORDER if kind not in known]
    rest.sort(key=lambda kind: kind in warned)
    shown = recall(Retrieved(episodes=found, insights=lessons, warnings=warnings_of(found, K)))
    pairs = [text for pair in (*shown.fixes, *shown.warnings) for text in pair]
    outcome.memory_tokens = sum(map(estimate_tokens, (*shown.lessons, *pairs)))
    outcome.tokens += outcome.memory_tokens
    return known + rest


def summary(outcomes: list[Outcome]) -> dict[str, float]:
    """Means over the bugs of all orders."""
    could = [one for one in outcomes if one.could_hit]
    found = {
        "solved": sum(one.solved for one in outcomes),
        "of": len(outcomes),
        "attempts_mean": round(statistics.mean(one.attempts for one in outcomes), 2),
        "tokens_mean": round(statistics.mean(one.tokens for one in outcomes), 1),
        "memory_tokens_mean": round(statistics.mean(one.memory_tokens for one in outcomes), 1),
        "tokens_per_solved": round(
            sum(one.tokens for one in outcomes) / max(1, sum(one.solved for one in outcomes)), 1
        ),
    }
    if could:
        found["hit@1"] = round(100 * statistics.mean(one.hit_1 for one in could), 1)
        found[f"hit@{K}"] = round(100 * statistics.mean(one.hit_k for one in could), 1)
        found["hits_possible"] = len(could)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "memory_effect.json")
    options = parser.parse_args()
    outcomes: dict[str, list[Outcome]] = {"off": [], "on": []}
    for seed in SEEDS:
        bugs = list(BUGS)
        random.Random(seed).shuffle(bugs)  # noqa: S311
        for name, found in outcomes.items():
            with tempfile.TemporaryDirectory(prefix="agentforge-memory-") as home:
                found += run(bugs, Path(home), memory=name == "on")
    result = {name: summary(found) for name, found in outcomes.items()}
    document = {**result, "bugs": len(BUGS), "seeds": SEEDS, "attempts": ATTEMPTS, "agentforge": __version__}
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
