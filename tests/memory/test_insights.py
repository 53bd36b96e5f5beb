from __future__ import annotations

import pytest

from agentforge.core.errors import UsageError
from agentforge.core.redact import MARK
from agentforge.core.retrieval import Episode, FailedAttempt
from agentforge.memory import editkinds as kinds
from agentforge.memory.episodes import EpisodeStore, warnings_of
from agentforge.memory.insights import InsightStore, counted, trust
from agentforge.memory.store import VectorStore


def diff(removed: str, added: str) -> str:
    lines = [f"-{line}" for line in removed.splitlines()] + [f"+{line}" for line in added.splitlines()]
    return "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a\n" + "\n".join(lines) + "\n b\n"


def episode(issue: str, patch: str, *failures: str) -> Episode:
    return Episode(id="", repository="o/n", issue=issue, patch=patch, failures=failures)


GUARD = diff("", "if x is None:\n    return 0")
COMPARISON = diff("if a < b:", "if a <= b:")


@pytest.mark.parametrize(
    ("removed", "added", "expected"),
    [
        ("", "if x is None:\n    return 0", kinds.GUARD),
        ("if a < b:", "if a <= b:", kinds.COMPARISON),
        ("if a:", "if a and b:", kinds.CONDITION),
        ("x = 1", "x = 2", kinds.LITERAL),
        ("x = 'a'", "x = 'b'", kinds.LITERAL),
        ("x = foo", "x = bar", kinds.NAME),
        ("f(a)", "f(a, b)", kinds.ARGUMENT),
        ("return a", "return a[0]", kinds.RETURN),
        ("import a", "import b", kinds.IMPORT),
        ("raise ValueError(a)", "raise TypeError(a)", kinds.HANDLER),
        ("", "def f():\n    pass", kinds.DEFINITION),
        ("f(a)\ng(a)", "", kinds.REMOVAL),
        ("", "x = 1", kinds.ADDITION),
    ],
)
def test_edit_kinds(removed: str, added: str, expected: str) -> None:
    assert kinds.edit_kinds(diff(removed, added)) == (expected,)


def test_a_comment_is_no_edit_and_each_run_counts() -> None:
    assert kinds.edit_kinds(diff("# a", "# b")) == ()
    both = diff("x = 1", "x = 2") + "@@ -9 +9 @@\n-if a < b:\n+if a > b:\n"
    assert kinds.edit_kinds(both) == (kinds.LITERAL, kinds.COMPARISON)


def test_failures_are_named_by_type() -> None:
    found = kinds.failure_kinds(["TypeError: 'NoneType' has no x", "a TypeError", "KeyError"])
    assert found == ("TypeError", "KeyError", "an unexpected None")


def test_a_lesson_needs_two_episodes_and_counts_those_against_it() -> None:
    episodes = [
        episode("one", GUARD, "TypeError").model_copy(update={"id": "1"}),
        episode("two", GUARD, "TypeError").model_copy(update={"id": "2"}),
        episode("three", COMPARISON, "TypeError").model_copy(update={"id": "3"}),
        episode("four", GUARD, "KeyError").model_copy(update={"id": "4"}),
    ]
    (found,) = counted(episodes)
    assert found.lesson == f"TypeError was fixed by {kinds.GUARD} in 2 of 3 verified repairs"
    assert (found.episodes, found.opposed, found.weight) == (("1", "2"), 1, trust(2, 1))
    assert counted([one.model_copy(update={"retracted": "no"}) for one in episodes]) == []


def test_insights_follow_their_episodes_outcomes_and_retraction(store: VectorStore) -> None:
    episodes, insights = EpisodeStore(store), InsightStore(store)
    first = episodes.store(episode("parse fails with TypeError", GUARD, "TypeError"))
    episodes.store(episode("draw fails with TypeError", GUARD, "TypeError"))
    (found,) = insights.refresh(episodes.list())
    assert [one.id for one in insights.search("it ends in a TypeError")] == [found.id]
    assert insights.search("a KeyError in the parser") == ()
    assert insights.outcome(found.id, helped=True).weight > found.weight
    for _ in range(4):
        insights.outcome(found.id, helped=False)
    worn = insights.show(found.id[:8])
    assert (worn.helped, worn.misled) == (1, 4)
    assert worn.weight < found.weight
    assert insights.refresh(episodes.list()) == (worn,), "counting anew keeps what was learned"
    insights.retract(found.id, "too broad")
    assert insights.refresh(episodes.list()) == ()
    assert insights.search("TypeError") == ()
    assert insights.show(found.id).retracted == "too broad"
    episodes.retract(first.id, "broke drawing")
    assert insights.refresh(episodes.list()) == ()
    with pytest.raises(UsageError, match="no insight has the id"):
        insights.show(found.id)


def test_a_models_lesson_is_kept_merged_and_lives_with_its_episodes(store: VectorStore) -> None:
    episodes, insights = EpisodeStore(store), InsightStore(store)
    one = episodes.store(episode("one", GUARD))
    two = episodes.store(episode("two", COMPARISON))
    lesson = "check the port of a url before it is joined"
    insights.add(lesson, [one.id])
    merged = insights.add("Check  the port of a URL before it is joined", [two.id])
    assert insights.list() == (merged,)
    assert set(merged.episodes) == {one.id, two.id}
    assert insights.search("the port of the url is lost")[0].lesson == lesson
    assert insights.refresh(episodes.list()) == (merged,)
    assert insights.refresh([]) == ()
    with pytest.raises(UsageError, match="needs a lesson"):
        insights.add(" ", [one.id])


def test_failed_attempts_are_kept_as_warnings_with_their_evidence(store: VectorStore) -> None:
    episodes = EpisodeStore(store)
    secret = "sk-proj-abcdefghij0123456789"
    attempt = FailedAttempt(patch=f"+x = '{secret}'", reason="test_port fails", tests=("t::test_port",))
    fix = episode("parse_url drops the port", GUARD)
    stored = episodes.store(fix.model_copy(update={"attempts": (attempt,)}))
    assert stored.attempts[0].patch == f"+x = '{MARK}'"
    other = FailedAttempt(patch="+y", reason="nothing changed")
    again = episodes.store(fix.model_copy(update={"attempts": (other,)}))
    assert [one.reason for one in again.attempts] == ["test_port fails", "nothing changed"]
    assert episodes.stats().episodes == 1
    found = episodes.search("the port of a url")
    assert warnings_of(found, 1) == (stored.attempts[0],)


def test_a_retracted_episode_is_listed_and_never_found(store: VectorStore) -> None:
    episodes = EpisodeStore(store)
    stored = episodes.store(episode("parse_url drops the port", GUARD))
    episodes.retract(stored.id, "a later regression")
    assert episodes.search("parse_url drops the port") == ()
    assert episodes.show(stored.id).retracted == "a later regression"
