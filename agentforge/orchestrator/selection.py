"""Which existing tests relate to the files a candidate touches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from agentforge.core.tree import Tree

_TEST_FILE = re.compile(r"^(test_.*|.*_tests?|tests?)\.py$")


def related_test_files(touched: Iterable[str], tree: Tree, limit: int = 40) -> tuple[str, ...]:
    """Test files that import a touched module, name it, or carry its name; nearest first."""
    modules = [names for path in touched if (names := _module_names(path))]
    scored = []
    for path in tree.paths():
        name = PurePosixPath(path).name
        if not _TEST_FILE.match(name) or tree.kind(path) != "file":
            continue
        score = max((_relation(path, tree.read(path).data, names) for names in modules), default=0)
        if score:
            scored.append((-score, path))
    return tuple(path for _, path in sorted(scored)[:limit])


def _module_names(path: str) -> tuple[str, ...]:
    """Dotted names under which a file may be imported, longest first: src/pkg/mod.py -> pkg.mod, mod."""
    pure = PurePosixPath(path)
    if pure.suffix != ".py":
        return ()
    parts = [part for part in (*pure.parts[:-1], pure.stem) if part not in {"src", "lib", "__init__"}]
    return tuple(".".join(parts[start:]) for start in range(len(parts)))


def _relation(path: str, content: bytes, names: tuple[str, ...]) -> int:
    """3: named after the module; 2: imports it by a dotted name; 1: imports its package and says its name."""
    last = names[-1]
    if PurePosixPath(path).stem.removeprefix("test_").removesuffix("_test") == last.lstrip("_"):
        return 3
    text = content.decode("utf-8", "replace")
    for name in names:
        if re.search(rf"^\s*(?:from|import)\s+{re.escape(name)}\b", text, re.MULTILINE):
            return 2
        package, _, module = name.rpartition(".")
        pattern = rf"^\s*from\s+{re.escape(package)}\s+import\s[^#]*\b{re.escape(module)}\b"
        if package and re.search(pattern, text, re.MULTILINE):
            return 2
    top = names[0].split(".")[0]
    imports_top = re.search(rf"^\s*(?:from|import)\s+{re.escape(top)}\b", text, re.MULTILINE)
    return 1 if imports_top else 0
