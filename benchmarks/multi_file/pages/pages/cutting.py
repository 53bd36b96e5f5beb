"""What is on a page."""


def cut(items, page, size):
    """The items of page number `page`; the first page is number 1."""
    start = page * size
    return items[start : start + size]
