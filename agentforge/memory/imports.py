"""Names of modules and of what they import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_ROOTS = ("src", "lib", "python")


def module_name(path: str) -> str:
    """Dotted name of the module at `path`: "src/a/b.py" and "a/b/__init__.py" are both "a.b"."""
    parts = path.split("/")
    stem, _, _ = parts[-1].rpartition(".")
    parts = parts[:-1] if stem == "__init__" else [*parts[:-1], stem or parts[-1]]
    return ".".join(parts[1:] if len(parts) > 1 and parts[0] in _ROOTS else parts)


def absolute_imports(path: str, imports: Iterable[str]) -> Iterator[str]:
    """The imported names without leading dots, each once: relative to the package that `path` is in."""
    package = module_name(path).split(".")
    if path.rpartition("/")[2].rpartition(".")[0] != "__init__":
        package = package[:-1]
    names = (_absolute(package, name) for name in imports)
    return iter(dict.fromkeys(name for name in names if name))


def _absolute(package: list[str], name: str) -> str:
    if name.startswith(("./", "../")):  # a script's relative module
        return _script_module(package, name)
    bare = name.lstrip(".")
    dots = len(name) - len(bare)
    if not dots:
        return name
    above = package[: len(package) - (dots - 1)]
    return ".".join([*above, *filter(None, bare.split("."))])


def _script_module(package: list[str], name: str) -> str:
    folders = list(package)
    for part in name.split("/"):
        if part == "..":
            folders = folders[:-1]
        elif part != ".":
            folders.append(part)
    stem, _, suffix = folders[-1].rpartition(".") if folders else ("", "", "")
    if suffix in ("js", "jsx", "ts", "tsx", "mjs", "cjs"):
        folders[-1] = stem
    return ".".join(folders)
