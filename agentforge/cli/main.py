"""Entry point."""

from __future__ import annotations


def main() -> None:
    """Placeholder replaced by the command line."""
