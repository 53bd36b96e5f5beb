"""Statements of a code answer that find no place in the file, and whether its definitions need them."""

from __future__ import annotations

import ast
import symtable
import warnings
from collections.abc import Iterator, Sequence

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.outline import Block, analysis_text, parse_module


def refuse_needed(module: ast.Module, source: str, left: Sequence[ast.stmt], data: bytes, path: str) -> None:
    """PatchError partial when a statement that would be left out binds a name that the definitions use.

    `module` and `source` are the answer's, `data` is the file's.
    """
    if not left:
        return
    file = parse_module(analysis_text(data))
    known = set(_bound(file.body)) if isinstance(file, ast.Module) else set()
    kept = [node for node in module.body if not any(node is other for other in left)]
    needed = _free_names(module, source) - known - set(_bound(kept))
    for node in left:
        bound = set(_bound([node]))
        lost = (bound - known) if _guards_imports(node) else (bound & needed)
        if lost:
            what = f"the answer sets {min(lost)} in a statement that has no place in {path}"
            raise PatchError(RefusalReason.PARTIAL, what, path=path)


def _bound(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that statements bind at their own level, in the branches of compound ones too."""
    for node in body:
        if isinstance(node, Block):
            yield node.name
            continue
        for child in _outside_blocks(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                yield child.id
            elif isinstance(child, ast.alias):
                yield (child.asname or child.name).split(".")[0]
            elif isinstance(child, Block):
                yield child.name


def _outside_blocks(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, Block | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _outside_blocks(child)


def _free_names(module: ast.Module, source: str) -> set[str]:
    """Module-level names that the definitions of a module look up."""
    blocks = [node for node in module.body if isinstance(node, Block)]
    names = {block.name for block in blocks}
    found: set[str] = set()
    for table in _tables(source):
        if table.get_name() in names:
            found |= set(_globals(table))
    for block in blocks:
        for part in _header(block):
            found |= {child.id for child in ast.walk(part) if isinstance(child, ast.Name)}
    return found


def _tables(source: str) -> list[symtable.SymbolTable]:
    """Scopes below the module; none for code that is sound only where it goes, as with `nonlocal`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(symtable.symtable(source, "<answer>", "exec").get_children())
    except (SyntaxError, ValueError, RecursionError):
        return []


def _guards_imports(node: ast.stmt) -> bool:
    """`try: import …` and `if TYPE_CHECKING: import …`."""
    guard = isinstance(node, ast.Try) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    return guard and any(isinstance(child, ast.alias) for child in ast.walk(node))


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    yield from (symbol.get_name() for symbol in table.get_symbols() if symbol.is_global())
    for inner in table.get_children():
        yield from _globals(inner)


def _header(block: Block) -> list[ast.AST]:
    """What of a definition is evaluated where it stands."""
    if isinstance(block, ast.ClassDef):
        return [*block.decorator_list, *block.bases, *block.keywords]
    returns = [block.returns] if block.returns else []
    return [*block.decorator_list, block.args, *returns]
