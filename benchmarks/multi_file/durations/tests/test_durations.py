from durations import parse, show


def test_hours_and_minutes():
    assert parse("1h 30m") == 5400
    assert show(5400) == "1h 30m"


def test_nothing():
    assert show(0) == "0s"


def test_days_are_read():
    assert parse("2d 3h") == 183600


def test_days_are_written():
    assert show(183600) == "2d 3h"
