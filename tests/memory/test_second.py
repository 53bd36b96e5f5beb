"""The second pass completes a list; it never displaces its head."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentforge.core.retrieval import Commit
from agentforge.core.tree import Tree, TreeFile
from agentforge.memory.history import History
from agentforge.memory.ranking import IndexSearch
from agentforge.memory.second import CHANGED, IMPORTED, KEPT, second_signals, settled

FILES = {
    "shop/till.py": "from shop.money import split\n\n\ndef receipt():\n    return split(10, 3)\n",
    "shop/money.py": "def split(cents, people):\n    return [cents // people] * people\n",
    "shop/stock.py": "def count():\n    return 1\n",
    "tests/test_till.py": "from shop.till import receipt\n",
}


def search(history: History | None = None) -> IndexSearch:
    return IndexSearch(Tree({path: TreeFile(text.encode()) for path, text in FILES.items()}), history=history)


def commit(number: int, *paths: str) -> Commit:
    return Commit(id=str(number), time=1_000_000 + number, message="change", paths=paths)


def test_what_the_likeliest_file_imports_and_what_changed_with_it_is_named() -> None:
    history = History(
        [commit(1, "shop/till.py", "shop/stock.py"), commit(2, "shop/stock.py", "shop/money.py")]
    )
    found = search(history)
    number = found.around.number
    seeds = np.full(len(found.index.files), -9.0)
    seeds[number["shop/till.py"]] = 0.0
    signals = second_signals(found.around, seeds, history)
    assert np.argmax(signals[IMPORTED]) == number["shop/money.py"]
    assert np.argmax(signals[CHANGED]) == number["shop/stock.py"]
    assert signals[IMPORTED][number["tests/test_till.py"]] == 0


def test_without_history_nothing_changed_together() -> None:
    found = search()
    assert not second_signals(found.around, np.zeros(len(FILES)), None)[CHANGED].any()


scores = st.lists(st.floats(-50, 50, allow_subnormal=False), min_size=1, max_size=30)


@given(scores, st.randoms(use_true_random=False))
def test_the_head_of_the_first_pass_stays_and_the_rest_is_the_second_s(
    first: list[float], chance: object
) -> None:
    one = np.array(first)
    two = np.array([chance.uniform(-50, 50) for _ in first])  # type: ignore[attr-defined]
    final = settled(one, two)
    head = np.argsort(-one, kind="stable")[:KEPT].tolist()
    order = np.argsort(-final, kind="stable").tolist()
    assert set(order[: len(head)]) == set(head)
    assert order[: len(head)] == head
    rest = [number for number in range(len(first)) if number not in head]
    assert [n for n in order if n in rest] == sorted(rest, key=lambda n: (-two[n], n))


def test_the_ranking_explains_what_the_second_pass_added() -> None:
    ranked = search().rank_files("receipt of the till is wrong", 4)
    assert ranked[0].path == "shop/till.py"
    money = next(file for file in ranked if file.path == "shop/money.py")
    assert IMPORTED in money.why
