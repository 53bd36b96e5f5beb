"""From text to seconds."""

import re

UNITS = {"h": 3600, "m": 60, "s": 1}


def parse(text):
    """Seconds of a duration such as "1h 30m"."""
    total = 0
    for amount, unit in re.findall(r"(\d+)\s*([a-z]+)", text):
        if unit not in UNITS:
            raise ValueError(f"unknown unit: {unit}")
        total += int(amount) * UNITS[unit]
    return total
