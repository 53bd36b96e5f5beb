import pytest

from pages import count, cut


@pytest.mark.parametrize(
    ("items", "size", "pages"), [(0, 5, 0), (1, 5, 1), (5, 5, 1), (6, 5, 2), (100, 7, 15), (14, 7, 2)]
)
def test_count(items, size, pages):
    assert count(items, size) == pages


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20])
def test_all_pages_together_are_all_items(size):
    items = list(range(20))
    assert [item for page in range(1, count(20, size) + 1) for item in cut(items, page, size)] == items


def test_a_page_holds_one_item_at_least():
    with pytest.raises(ValueError):
        count(3, 0)
