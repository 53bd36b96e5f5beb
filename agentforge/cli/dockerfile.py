"""The Dockerfile that a command was given."""

from __future__ import annotations

from pathlib import Path

from agentforge.core.errors import UsageError


def read_dockerfile(path: Path | None, image: str | None) -> str | None:
    """Its text. Raises `UsageError` where it cannot be read, or an image is given besides."""
    if path is None:
        return None
    if image is not None:
        raise UsageError("--image and --dockerfile exclude each other", hint="give one of them")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the Dockerfile {path} cannot be read: {error}") from error
