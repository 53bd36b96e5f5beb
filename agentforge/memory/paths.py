"""Find the files of a tree that a path or dotted name written by a person means; and what kind they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# A folder called `test` or `testing` below the top is often a library's own test support, hence source.
_TEST = re.compile(
    r"^(test|testing|spec)/|(^|/)(tests|__tests__|unittests)/|(^|/)(test_[^/]*|[^/]*_test|tests?|conftest)\.\w+$"
)
_ASIDE = re.compile(
    r"(^|/)(docs?|examples?|samples?|benchmarks?|bench|gallery|galleries|tutorials?|scripts?|tools?|"
    r"extern|external|externals|vendor|vendored|_vendor|third_party|packages/\w+/packages|build|ci|\.\w+)/"
)


def is_test(path: str) -> bool:
    """Whether the path looks like a test, a fixture or a folder of them."""
    return _TEST.search(path) is not None


def is_aside(path: str) -> bool:
    """Documentation, examples, vendored code and tooling: rarely where a fault is mended."""
    return _ASIDE.search(path) is not None or path in ("setup.py", "conftest.py")


class PathResolver:
    """Paths of one tree and their numbers, to be found by what people write of them."""

    def __init__(self, paths: Iterable[tuple[int, str]]) -> None:
        self._by_name: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
        for number, path in paths:
            parts = tuple(path.split("/"))
            self._by_name.setdefault(parts[-1], []).append((number, parts))

    def resolve(self, written: str) -> list[int]:
        """Numbers of the files whose path shares the longest tail with `written`, none when it means none.

        A bare file name means every file of that name; a longer path must agree in at least two parts
        or be the whole path of a file.
        """
        parts = tuple(part for part in written.split("/") if part not in ("", ".", ".."))
        candidates = self._by_name.get(parts[-1], []) if parts else []
        tails = [(common_tail(parts, other), number, len(other)) for number, other in candidates]
        best = max((tail for tail, _, _ in tails), default=0)
        if len(parts) > 1 and best < 2 and not any(tail == length for tail, _, length in tails):
            return []
        return [number for tail, number, _ in tails if tail == best]

    def resolve_dotted(self, dotted: str) -> Iterator[tuple[int, str]]:
        """(file, rest of the name inside it) for the longest module the dotted name can mean."""
        parts = dotted.split(".")
        for end in range(len(parts), 0, -1):
            for tail in ((*parts[: end - 1], f"{parts[end - 1]}.py"), (*parts[:end], "__init__.py")):
                found = [n for n, other in self._by_name.get(tail[-1], []) if other[-len(tail) :] == tail]
                if found and (len(tail) > 1 or len(found) == 1):
                    yield from ((number, ".".join(parts[end:])) for number in found)
                    return


def common_tail(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    """How many last parts two paths share."""
    count = 0
    for one, other in zip(reversed(left), reversed(right), strict=False):
        if one != other:
            break
        count += 1
    return count
