import pytest

from durations import parse, show


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1d", 86400), ("10d 1s", 864001), ("23h 59m 59s", 86399), ("45m", 2700), ("0s", 0), ("1d 1m", 86460)],
)
def test_both_ways(text, seconds):
    assert parse(text) == seconds
    assert show(seconds) == text


def test_unknown_units_are_refused():
    with pytest.raises(ValueError):
        parse("3w")
