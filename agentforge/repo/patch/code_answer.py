"""Answers that are code: whole functions, or the whole file. Which of the two is decided here.

A piece of code is the whole file when the file is not Python or does not exist, or when it brings
something at module level beside definitions and imports and leaves out nothing the file binds
there. Everything else is a set of symbols.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.tree import TreeFile, TreeReader
from agentforge.repo.patch.code_pieces import Piece, code_pieces
from agentforge.repo.patch.cut_answer import refuse_abridged, refuse_placeholders
from agentforge.repo.patch.diff_apply import Overlay, same_file_name
from agentforge.repo.patch.edits import EditFormat
from agentforge.repo.patch.filetext import BOM, declared_encoding, is_binary, split_lines
from agentforge.repo.patch.hunks import apply_hunks
from agentforge.repo.patch.imports import is_docstring
from agentforge.repo.patch.left_out import refuse_needed
from agentforge.repo.patch.outline import Block, analysis_text, outline, parse_module, source_lines
from agentforge.repo.patch.paths import jailed, refuse_links
from agentforge.repo.patch.refusal import combined
from agentforge.repo.patch.rewrite import rewrite_hunk, transcoded
from agentforge.repo.patch.symbols import CodeAnswer, read_code, symbol_hunks

_PYTHON_FILE = (".py", ".pyi", ".pyw")
_SMALL = 12  # lines; a block may replace a file so short whatever it holds
_KEPT = 0.4  # share of the lines of a longer file that its replacement must hold
_LARGEST_SEARCHED = 2_000_000  # bytes of a source in which a name is looked for


def apply_code(answer: bytes, tree: TreeReader, target: str | None) -> tuple[Overlay, EditFormat]:
    """The change set of an answer that is code; PatchError malformed when it holds none."""
    pieces = code_pieces(answer, tree)
    if not pieces:
        raise PatchError(RefusalReason.MALFORMED, "the answer holds no edit and no code")
    overlay = Overlay(tree)
    failures: list[PatchError] = []
    formats: list[EditFormat] = []
    by_file = _by_file(pieces, tree, target)
    for path in by_file:
        refuse_links(path, tree)
    for path, mine in by_file.items():
        try:
            formats.append(_apply_to(path, mine, overlay))
        except PatchError as error:
            failures.append(error)
    if failures:
        raise combined(failures, others_fit=bool(formats))
    return overlay, "symbol" if "symbol" in formats else "whole_file"


# --- which file ---------------------------------------------------------------------------------------


def _by_file(pieces: Sequence[Piece], tree: TreeReader, target: str | None) -> dict[str, list[Piece]]:
    files: dict[str, list[Piece]] = {}
    for piece in pieces:
        for path in _files_of(piece, pieces, tree, target):
            files.setdefault(path, []).append(piece)
    if not files:
        raise PatchError(RefusalReason.MALFORMED, "the code of the answer defines nothing and names no file")
    return files


def _files_of(piece: Piece, pieces: Sequence[Piece], tree: TreeReader, target: str | None) -> list[str]:
    hint = jailed(piece.hint) if piece.hint else ""
    if hint and (tree.kind(hint) != "missing" or not target):
        return [hint]
    if hint and target and not same_file_name(hint, target) and len({p.hint for p in pieces if p.hint}) > 1:
        return [hint]
    if target:
        return [target]
    return [_defining_file(piece, tree)] if _names_in(piece) else []


def _names_in(piece: Piece) -> list[str]:
    found = re.findall(rb"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)", piece.text, re.M)
    return [name.decode() for name in found]


def _defining_file(piece: Piece, tree: TreeReader) -> str:
    """The one file that defines a name of the piece; PatchError no_match or ambiguous."""
    code = read_code(piece)
    names = {definition.name for definition in code.top}
    either = b"|".join(sorted(name.encode() for name in names))
    pattern = re.compile(rb"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(?:" + either + rb")\b", re.M)
    sources = [path for path in tree.paths() if path.endswith(_PYTHON_FILE)]
    found = [path for path in sources if _defines(path, pattern, names, tree)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(sorted(names))
    if not found:
        raise PatchError(RefusalReason.NO_MATCH, f"no file of the tree defines {listed}")
    what = f"{len(found)} files define {listed}: {', '.join(found[:5])}"
    raise PatchError(RefusalReason.AMBIGUOUS, what, closest="\n".join(found[:10]))


def _defines(path: str, pattern: re.Pattern[bytes], names: set[str], tree: TreeReader) -> bool:
    if tree.kind(path) != "file":
        return False
    data = tree.read(path).data
    if len(data) > _LARGEST_SEARCHED or is_binary(data) or not pattern.search(data):
        return False
    return any(definition.name in names for definition in outline(data))


# --- whole file or symbols ----------------------------------------------------------------------------


def _apply_to(path: str, pieces: Sequence[Piece], overlay: Overlay) -> EditFormat:
    if not overlay.exists(path):
        overlay.changes[path] = TreeFile(_new_file(path, pieces[-1]))
        return "whole_file"
    entry = overlay.text(path)
    if not path.endswith(_PYTHON_FILE):
        lines = _usable(pieces, path)[-1].lines
        if not _keeps_enough(source_lines(entry.data), lines):
            what = f"the block holds but a part of {path}, and says not which"
            raise PatchError(RefusalReason.PARTIAL, what, path=path)
        return _replace_file(path, entry, lines, overlay)
    codes, broken = _readable(pieces)
    for code in codes:
        _refuse_elided(code, entry.data, path)
    whole = [code for code in codes if _is_whole(code, entry.data)]
    if whole and whole[-1] is codes[-1]:
        return _replace_file(path, entry, codes[-1].lines, overlay)
    if not codes:
        raise broken[-1]
    _replace_symbols(path, entry, codes, overlay)
    return "symbol"


def _usable(pieces: Sequence[Piece], path: str) -> list[Piece]:
    """For a file that is not Python only a fence says where it begins and ends."""
    fenced = [piece for piece in pieces if piece.fenced]
    if not fenced:
        raise PatchError(RefusalReason.MALFORMED, f"the answer holds no block for {path}", path=path)
    if not fenced[-1].closed:
        raise PatchError(RefusalReason.PARTIAL, "the answer was cut: its block has no end", path=path)
    return fenced


def _readable(pieces: Sequence[Piece]) -> tuple[list[CodeAnswer], list[PatchError]]:
    """Pieces that parse and say something; snippets that do not are passed over beside others that do.

    An open or broken piece with a definition in it refuses the whole answer.
    """
    codes: list[CodeAnswer] = []
    broken: list[PatchError] = []
    for piece in pieces:
        try:
            code = read_code(piece)
        except PatchError as error:
            if not piece.closed or _names_in(piece):
                raise
            broken.append(error)
            continue
        codes.append(code)
    telling = [code for code in codes if code.top]
    return telling or codes, broken


def _refuse_elided(code: CodeAnswer, data: bytes, path: str) -> None:
    """PatchError partial for a comment or a `...` that stands for code, wherever it is in the piece."""
    refuse_abridged(code.lines, source_lines(data), path)
    for node in ast.walk(code.module):
        if not isinstance(node, ast.Module | Block):
            continue
        said = [child for child in node.body if not is_docstring(child)]
        dots = [child for child in said if isinstance(child, ast.Expr) and _is_ellipsis(child.value)]
        if dots and len(said) > len(dots):
            what = f"the replacement is abridged: `...` stands for lines of {path}"
            raise PatchError(RefusalReason.PARTIAL, what, path=path)


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _is_whole(code: CodeAnswer, data: bytes) -> bool:
    """Whether a piece of code stands for the whole of a Python file."""
    module = parse_module(analysis_text(data))
    if not data.strip():
        return True
    if isinstance(module, SyntaxError):
        return False
    have, given = _bound(module.body), _bound(code.module.body)
    if not have["defs"] and not code.top:
        return _keeps_enough(source_lines(data), code.lines)
    brings = [node for node in code.others if not _is_demonstration(node, module)]
    return bool(brings) and have["defs"] <= given["defs"] and _used_imports_kept(module, code)


def _bound(body: Sequence[ast.stmt]) -> dict[str, set[str]]:
    """Names bound at module level: definitions with assignments, and imports."""
    defs: set[str] = set()
    imports: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defs.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            defs |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return {"defs": defs, "imports": imports}


def _used_imports_kept(module: ast.Module, code: CodeAnswer) -> bool:
    used = {node.id for node in ast.walk(code.module) if isinstance(node, ast.Name)}
    lost = _bound(module.body)["imports"] - _bound(code.module.body)["imports"]
    return not lost & used


def _is_demonstration(node: ast.stmt, module: ast.Module) -> bool:
    """A call, an assertion or a main guard that shows the code off, where the file has none."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Name):
        return not any(
            isinstance(have, ast.Expr) and isinstance(have.value, ast.Call) for have in module.body
        )
    if isinstance(node, ast.Assert | ast.If | ast.For | ast.Assign):
        return not any(isinstance(have, type(node)) for have in module.body)
    return False


# --- writing ------------------------------------------------------------------------------------------


def _new_file(path: str, piece: Piece) -> bytes:
    if path.endswith(_PYTHON_FILE):
        read_code(piece)
    elif not piece.fenced or not piece.closed:
        reason = RefusalReason.MALFORMED if not piece.fenced else RefusalReason.PARTIAL
        raise PatchError(reason, f"the answer holds no complete block for {path}", path=path)
    refuse_abridged(piece.lines, (), path)
    return b"".join(line + b"\n" for line in _trimmed(piece.lines))


def _replace_file(path: str, entry: TreeFile, new: Sequence[bytes], overlay: Overlay) -> EditFormat:
    """The whole text, in the line endings and encoding of the file.

    Blank lines at its start and end stay as they were: a fence cannot show them.
    """
    body = entry.data.removeprefix(BOM)
    lines = split_lines(body)
    texts = [line.text for line in lines]
    wanted = transcoded(_trimmed(new), declared_encoding(body), path, "the new text")
    first, last = _blank_edges(texts)
    refuse_abridged(wanted, texts, path)
    hunk = rewrite_hunk(lines, first, last, wanted, "the new text")
    data, notes = apply_hunks(entry.data, [hunk], path)
    overlay.changes[path] = TreeFile(data, entry.mode)
    overlay.notes += notes
    return "whole_file"


def _keeps_enough(old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """Whether text can be the whole of a file rather than a part of it, by the lines they share."""
    said = [text.strip() for text in old if text.strip()]
    have = {text.strip() for text in new}
    return len(said) <= _SMALL or sum(text in have for text in said) >= _KEPT * len(said)


def _blank_edges(texts: Sequence[bytes]) -> tuple[int, int]:
    filled = [number for number, text in enumerate(texts) if text.strip()]
    return (filled[0], filled[-1] + 1) if filled else (0, len(texts))


def _trimmed(lines: Sequence[bytes]) -> list[bytes]:
    first, last = _blank_edges(lines)
    return list(lines[first:last])


def _replace_symbols(path: str, entry: TreeFile, codes: Sequence[CodeAnswer], overlay: Overlay) -> None:
    hunks, notes = symbol_hunks(entry.data, codes, path)
    for code in codes:
        refuse_needed(code.module, code.text, code.left_out(entry.data), entry.data, path)
    refuse_placeholders(hunks, entry.data, path)
    data, said = apply_hunks(entry.data, hunks, path) if hunks else (entry.data, [])
    overlay.changes[path] = TreeFile(data, entry.mode)
    left_out = sum(len(code.left_out(entry.data)) for code in codes)
    if left_out:
        notes.append(f"{path}: {left_out} statements beside the definitions were left out")
    overlay.notes += [*notes, *said]
