from intervals import covers, length, merge


def test_apart():
    assert merge([(5, 8), (1, 3)]) == [(1, 3), (5, 8)]


def test_overlapping():
    assert merge([(1, 4), (3, 6), (8, 9)]) == [(1, 6), (8, 9)]


def test_inside():
    assert merge([(1, 9), (2, 3)]) == [(1, 9)]


def test_nothing():
    assert merge([]) == []


def test_covers():
    assert covers([(1, 3), (5, 8)], 5)
    assert not covers([(1, 3), (5, 8)], 4)


def test_length():
    assert length([(1, 3), (2, 6)]) == 5
