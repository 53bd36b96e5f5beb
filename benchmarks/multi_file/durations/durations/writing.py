"""From seconds to text."""

STEPS = [("h", 3600), ("m", 60), ("s", 1)]


def show(seconds):
    """The shortest text that `parse` reads back as `seconds`."""
    parts = []
    for unit, size in STEPS:
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return " ".join(parts) or "0s"
