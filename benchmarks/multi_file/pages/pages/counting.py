"""How many pages there are."""


def count(items, size):
    """The number of pages that hold `items` items, at most `size` on each."""
    if size < 1:
        raise ValueError("a page holds at least one item")
    return items // size
