from pages import count, cut

ITEMS = list("abcdefghij")


def test_the_last_page_counts():
    assert count(10, 3) == 4


def test_full_pages():
    assert count(9, 3) == 3


def test_first_page():
    assert cut(ITEMS, 1, 3) == ["a", "b", "c"]


def test_last_page():
    assert cut(ITEMS, 4, 3) == ["j"]
