from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentforge.core.errors import StoreError, UsageError
from agentforge.core.redact import MARK
from agentforge.core.retrieval import Episode
from agentforge.memory.embed import HashedEmbedder
from agentforge.memory.episodes import EpisodeStore, episode_id
from agentforge.memory.store import VectorStore

PATCH = "diff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n@@ -3,1 +3,1 @@\n-a\n+b\n"


def episode(
    issue: str, repository: str = "owner/name", created: str = "2025-01-01T00:00:00+00:00"
) -> Episode:
    return Episode(id="", repository=repository, issue=issue, patch=PATCH, created=created)


@pytest.fixture
def episodes(store: VectorStore) -> EpisodeStore:
    return EpisodeStore(store)


def test_stored_episodes_are_listed_newest_first_and_shown_by_prefix(episodes: EpisodeStore) -> None:
    old = episodes.store(episode("parse_url drops the port"))
    new = episodes.store(episode("legend colours are wrong", created="2025-02-01T00:00:00+00:00"))
    assert [one.id for one in episodes.list()] == [new.id, old.id]
    assert episodes.show(old.id[:8]).patch == PATCH
    assert episodes.list("other/name") == ()


def test_unknown_and_ambiguous_ids_are_reported(episodes: EpisodeStore) -> None:
    stored = [episodes.store(episode(f"issue number {number}")) for number in range(17)]
    first = {one.id[0] for one in stored}
    ambiguous = next(digit for digit in first if sum(one.id.startswith(digit) for one in stored) > 1)
    with pytest.raises(UsageError, match=f"episodes have an id that starts with '{ambiguous}'"):
        episodes.show(ambiguous)
    for missing in ("zz", ""):
        with pytest.raises(UsageError, match="no episode has the id"):
            episodes.show(missing)


def test_the_same_fix_is_kept_once(episodes: EpisodeStore) -> None:
    episodes.store(episode("parse_url drops the port"))
    moved = episode("Parse_URL  drops the port\n").model_copy(
        update={"patch": PATCH.replace("-3,1 +3,1", "-9,1 +9,1").replace("index 1..2", "index 3..4")}
    )
    assert episodes.store(moved).id == episode_id(episode("parse_url drops the port"))
    assert episodes.stats().episodes == 1
    episodes.store(episode("parse_url drops the port", repository="other/name"))
    assert episodes.stats().repositories == {"owner/name": 1, "other/name": 1}


def test_search_ranks_by_likeness(episodes: EpisodeStore) -> None:
    for text in (
        "parse_url drops the port of a URL",
        "legend colours are wrong",
        "a crash in the matrix solver",
    ):
        episodes.store(episode(text))
    found = episodes.search("the port is lost when parsing urls")
    assert found[0].issue == "parse_url drops the port of a URL"
    assert 0 < found[0].score <= 1
    assert [one.issue for one in episodes.search("parse_url drops the port of a URL", k=1)] == [
        found[0].issue
    ]
    assert (episodes.search(""), episodes.search("port", k=0)) == ((), ())


def test_af17_memory_is_persistent_ranked_and_ignores_stop_words(
    episodes: EpisodeStore, tmp_path: Path
) -> None:
    """Twenty-five episodes, read by another process: the one that is meant comes first, and five at most."""
    for number in range(25):
        episodes.store(episode(f"a failure of topic{number} in the widget"))
    code = (
        "import sys; from pathlib import Path; from agentforge.memory.open import open_episodes;"
        "found = open_episodes(Path(sys.argv[1])).search('topic24 of a widget');"
        "print(len(found), found[0].issue); print(open_episodes(Path(sys.argv[1])).search('a the of in'))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert other.stdout.splitlines() == ["5 a failure of topic24 in the widget", "()"]


def test_af16_only_episodes_are_in_episodic_memory(episodes: EpisodeStore) -> None:
    """The store takes an `Episode` and nothing else; what others wrote beside it does not come back."""
    stored = episodes.store(episode("parse_url drops the port"))
    raw = VectorStore(episodes._store.folder, HashedEmbedder())
    from agentforge.memory.episodes import _COLLECTION
    from agentforge.memory.store import Row

    raw.upsert(_COLLECTION, [Row("tool", "parse_url ls output port", {"type": "tool_output"})])
    assert [one.id for one in episodes.search("parse_url port")] == [stored.id]
    assert [one.id for one in episodes.list()] == [stored.id]


def test_secrets_are_redacted_before_they_are_stored(episodes: EpisodeStore) -> None:
    secret = "sk-proj-abcdefghij0123456789"
    stored = episodes.store(episode(f"the key {secret} is logged"))
    assert MARK in stored.issue
    content = b"".join(p.read_bytes() for p in episodes._store.folder.rglob("*") if p.is_file())
    assert secret.encode() not in content


def test_forget_deletes_what_was_named_and_counts_it(episodes: EpisodeStore) -> None:
    first = episodes.store(episode("one failure"))
    episodes.store(episode("two failures", repository="other/name"))
    episodes.store(episode("three failures", created="2025-06-01T00:00:00+00:00"))
    assert episodes.forget() == 0
    assert episodes.forget(first.id[:10]) == 1
    assert episodes.forget(before=datetime(2025, 3, 1, tzinfo=UTC)) == 1
    assert episodes.forget(repository="nobody/nothing") == 0
    assert [one.issue for one in episodes.list()] == ["three failures"]
    assert episodes.forget(repository="owner/name", before=datetime(2025, 3, 1, tzinfo=UTC)) == 0
    assert episodes.forget(repository="owner/name") == 1
    assert episodes.stats().episodes == 0


def test_an_enormous_patch_is_refused_and_a_long_issue_clipped(episodes: EpisodeStore) -> None:
    with pytest.raises(StoreError, match="too large to remember"):
        episodes.store(episode("x").model_copy(update={"patch": "y" * 300_000}))
    assert len(episodes.store(episode("word " * 100_000)).issue) == 200_000
