"""Closed intervals of whole numbers, as (start, end) pairs with start <= end."""


def merge(intervals):
    """The fewest intervals that cover the same numbers, in order.

    >>> merge([(5, 8), (1, 3), (2, 4)])
    [(1, 4), (5, 8)]
    """
    merged = []
    for start, end in sorted(intervals):
        if merged and start < merged[-1][1]:
            last_start, last_end = merged.pop()
            merged.append((last_start, max(last_end, end)))
        else:
            merged.append((start, end))
    return merged


def covers(intervals, number):
    """Whether `number` lies in one of `intervals`."""
    return any(start <= number <= end for start, end in intervals)


def length(intervals):
    """How far the intervals reach in all, each number of an overlap counted once."""
    return sum(end - start for start, end in merge(intervals))
