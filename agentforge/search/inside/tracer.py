"""Which lines of the repository ran."""

from __future__ import annotations

import sys
import types
from typing import Any


class Tracer:
    """Which lines of the repository ran. Test files count too; the reader drops them."""

    def __init__(self, root: str) -> None:
        self.prefix = root + "/"
        self.lines: dict[types.CodeType, set[int] | None] = {}

    def start(self) -> None:
        sys.settrace(self.enter)

    def enter(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code not in self.lines:
            self.lines[code] = set() if self.wanted(code.co_filename) else None
        seen = self.lines[code]
        if seen is None:
            return None

        def step(frame: types.FrameType, event: str, arg: Any, add: Any = seen.add) -> Any:
            if event == "line":
                add(frame.f_lineno)
            return step

        seen.add(code.co_firstlineno)
        return step

    def wanted(self, path: str) -> bool:
        return path.startswith(self.prefix) and "/site-packages/" not in path

    def result(self) -> dict[str, list[int]]:
        files: dict[str, set[int]] = {}
        for code, lines in self.lines.items():
            if lines:
                files.setdefault(code.co_filename[len(self.prefix) :], set()).update(lines)
        return {path: sorted(lines) for path, lines in files.items()}

    def functions(self) -> list[list[Any]]:
        """[path, first line] of every function body that was entered."""
        entered = [code for code, lines in self.lines.items() if lines and code.co_name != "<module>"]
        return [[code.co_filename[len(self.prefix) :], code.co_firstlineno] for code in entered]
