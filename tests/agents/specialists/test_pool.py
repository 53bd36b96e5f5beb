"""The pools as data, and retrieval over their notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge.agents.specialists.corpus import Corpus
from agentforge.agents.specialists.pool import load_pool, shipped_pools
from agentforge.core.errors import ConfigError

ONE = (
    "name: {name}\ntitle: T\ndescription: D\ntags: [alpha]\n"
    "notes:\n- {{id: {note}, title: N, tags: [alpha], text: words}}\n"
)


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.mark.parametrize("name", ["algorithms", "repositories"])
def test_shipped_pools_have_eleven_specialists_with_notes_of_their_own(name):
    pool = load_pool(name)
    assert len(pool.specialists) == 11
    assert all(len(item.notes) >= 4 and item.tags for item in pool.specialists)
    assert all(len(pool.slice_of(item)) >= len(item.notes) for item in pool.specialists)


def test_every_shipped_pool_loads():
    assert {load_pool(name).hash for name in shipped_pools()}.__len__() == len(shipped_pools())


def test_a_note_serves_every_specialist_that_shares_a_tag():
    pool = load_pool("algorithms")
    assert "search-prefix" in pool.slice_of(pool["dynamic_programming"])  # "subarray"
    assert "graph-bfs" not in pool.slice_of(pool["strings"])


@pytest.mark.parametrize(
    ("task", "specialist", "note"),
    [
        ("Shortest path in a weighted graph with Dijkstra", "graphs", "graph-dijkstra"),
        ("Longest increasing subsequence of a list", "dynamic_programming", "dp-subsequence"),
        ("Maximum of every sliding window", "data_structures", "ds-monotonic"),
        ("Convex hull of points and its area", "geometry", "geo-hull"),
    ],
)
def test_retrieval_finds_the_technique(task, specialist, note):
    corpus = Corpus(load_pool("algorithms"))
    profile = corpus.pool[specialist]
    assert note in [item.id for item in corpus.search(profile, task)]
    best = max(corpus.pool.specialists, key=lambda item: _rank(corpus, item, task))
    assert best.name == specialist


def _rank(corpus, profile, task):
    match = corpus.match(profile, task)
    return match.overlap, match.coverage, match.quality


def test_words_in_no_note_find_nothing():
    corpus = Corpus(load_pool("repositories"))
    profile = corpus.pool["web_http"]
    assert corpus.search(profile, "zzz qqq") == ()
    assert corpus.match(profile, "zzz qqq").quality == 0


def test_a_pool_of_ones_own_is_a_folder(tmp_path):
    write(tmp_path, a=ONE.format(name="alpha", note="n1"), b=ONE.format(name="beta", note="n2"))
    pool = load_pool(str(tmp_path))
    assert [item.name for item in pool.specialists] == ["alpha", "beta"]
    before = pool.hash
    write(tmp_path, b=ONE.format(name="beta", note="n3"))
    assert load_pool(str(tmp_path)).hash != before


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name: x\ntitle: T\n", "description"),
        ("name: x\ntitle: T\ndescription: D\nextra: 1\n", "extra"),
        ("name: [", "not valid YAML"),
        (
            ONE.format(name="x", note="n").replace("tags: [alpha], text", "tags: [beta], text"),
            "shares no tag",
        ),
    ],
)
def test_what_is_wrong_with_a_pool_is_said(tmp_path, text, complaint):
    write(tmp_path, x=text)
    with pytest.raises(ConfigError, match=complaint):
        load_pool(str(tmp_path))


def test_twins_unknown_and_empty_pools_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="holds no YAML"):
        load_pool(str(tmp_path))
    write(tmp_path, a=ONE.format(name="alpha", note="n1"), b=ONE.format(name="alpha", note="n2"))
    with pytest.raises(ConfigError, match="'alpha' is there 2 times"):
        load_pool(str(tmp_path))
    with pytest.raises(ConfigError, match="unknown pool"):
        load_pool("nothing-like-it")
