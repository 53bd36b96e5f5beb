"""Whole functions, methods and classes in the place of their namesakes (rule 11)."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.code_pieces import Piece, dedented, refuse_unparsable
from agentforge.repo.patch.constants import Constant, assigned_name, constant_hunks
from agentforge.repo.patch.edits import Hunk, Op
from agentforge.repo.patch.filetext import BOM, declared_encoding, split_lines
from agentforge.repo.patch.imports import Import, NewImport, import_hunks, is_docstring
from agentforge.repo.patch.outline import (
    Block,
    Definition,
    analysis_text,
    comments_start,
    outline,
    parse_module,
)
from agentforge.repo.patch.restyle import Style, restyled, string_lines, style_of
from agentforge.repo.patch.rewrite import rewrite_hunk, transcoded


@dataclass(frozen=True, slots=True)
class Symbol:
    """One definition of an answer: `path` is its address, ("C", "m") for a method in a bare class."""

    path: tuple[str, ...]
    definition: Definition
    lines: tuple[bytes, ...]
    strings: dict[int, bool]
    comments: tuple[bytes, ...]  # right above it in the answer
    source_indent: bytes
    given_indent: bytes  # as the answer wrote it, before the whole was moved to the margin

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """A parsed piece of code: its definitions, imports, and what else stands at its top level."""

    module: ast.Module
    lines: list[bytes]
    definitions: list[Definition]
    indent: bytes
    strings: dict[int, bool]
    imports: list[NewImport] = field(default_factory=list)
    others: list[ast.stmt] = field(default_factory=list)

    @property
    def top(self) -> list[Definition]:
        return [definition for definition in self.definitions if not definition.parents]

    @property
    def kept_constants(self) -> list[Constant]:
        """Assignments of one name at module level; those behind the definitions show the code off."""
        first = min((definition.start for definition in self.top), default=0)
        return [
            Constant(name, tuple(self.lines[node.lineno - 1 : node.end_lineno]), node.lineno <= first)
            for node in self.others
            if (name := assigned_name(node))
        ]

    @property
    def text(self) -> str:
        return analysis_text(b"\n".join(self.lines))

    def left_out(self, data: bytes) -> list[ast.stmt]:
        """Statements that find no place in a file: all but imports, definitions and constants."""
        module = parse_module(analysis_text(data))
        have = {assigned_name(node) for node in module.body} if isinstance(module, ast.Module) else set()
        leading = {constant.name for constant in self.kept_constants if constant.leads}
        return [node for node in self.others if assigned_name(node) not in (have | leading) - {""}]

    @property
    def gap(self) -> int:
        """Blank lines between the imports and the first definition."""
        ends = [node.node.end_lineno or 0 for node in self.imports]
        starts = [definition.start for definition in self.top]
        if not ends or not starts or min(starts) < max(ends):
            return 2
        return sum(not line.strip() for line in self.lines[max(ends) : min(starts)])


def read_code(piece: Piece) -> CodeAnswer:
    """Parse a piece; a uniform indent is taken off first. PatchError partial or malformed."""
    lines, indent = dedented(piece.lines)
    module = parse_module(analysis_text(b"\n".join(lines)))
    if isinstance(module, SyntaxError) and not indent:
        moved = _method_after_imports(piece.lines)
        if moved is not None:
            lines, indent = moved
            module = parse_module(analysis_text(b"\n".join(lines)))
    if isinstance(module, SyntaxError):
        raise refuse_unparsable(piece, module)
    data = b"\n".join(lines) + b"\n"
    code = CodeAnswer(module, lines, outline(data), indent, string_lines(analysis_text(data), module))
    for node in module.body:
        if isinstance(node, Import):
            own = tuple(lines[node.lineno - 1 : node.end_lineno])
            code.imports.append(NewImport(node, own))
        elif not isinstance(node, Block):
            code.others.append(node)
    return code


def _method_after_imports(lines: Sequence[bytes]) -> tuple[list[bytes], bytes] | None:
    """Imports at the margin followed by an indented method: the method is moved to the margin."""
    first = next((n for n, line in enumerate(lines) if line.startswith((b" ", b"\t")) and line.strip()), None)
    if first is None or not all(
        line.startswith((b"import ", b"from ", b"#")) or not line.strip() for line in lines[:first]
    ):
        return None
    method, indent = dedented(lines[first:])
    return [*lines[:first], *method], indent


# --- addresses ----------------------------------------------------------------------------------------


def wanted_symbols(code: CodeAnswer, file: Sequence[Definition]) -> list[Symbol]:
    """What the answer defines; a bare class around methods dissolves into them."""
    symbols: list[Symbol] = []
    for definition in code.top:
        symbols += _dissolved(code, definition, file)
    return symbols


def _dissolved(code: CodeAnswer, definition: Definition, file: Sequence[Definition]) -> list[Symbol]:
    if definition.kind == "class" and _is_address(definition, file):
        inner = [d for d in code.definitions if d.parents == definition.qualified]
        return [symbol for child in inner for symbol in _dissolved(code, child, file)]
    lines = tuple(code.lines[definition.start : definition.end])
    strings = {
        number - definition.start: docstring
        for number, docstring in code.strings.items()
        if definition.start <= number < definition.end
    }
    _refuse_losing(definition, code.definitions, file)
    indent = definition.indent if definition.parents else b""
    comments = tuple(code.lines[comments_start(code.lines, definition) : definition.start])
    return [Symbol(definition.qualified, definition, lines, strings, comments, indent, code.indent + indent)]


def _is_address(definition: Definition, file: Sequence[Definition]) -> bool:
    """A class of nothing but methods, for a class of the file with the same bases (or none given).

    A docstring beside them changes nothing while the file's class has more methods than these.
    """
    node = definition.node
    if not isinstance(node, ast.ClassDef):
        return False
    members = [child for child in node.body if not is_docstring(child)]
    if not members or not all(isinstance(child, Block) for child in members):
        return False
    namesakes = [d for d in file if d.kind == "class" and d.name == definition.name]
    if len(members) < len(node.body):
        named = {child.name for child in members if isinstance(child, Block)}
        namesakes = [d for d in namesakes if _methods(d, file) - named]
    given = _header(node)
    return any(not given or d.node is None or given == _header(d.node) for d in namesakes)


def _refuse_losing(definition: Definition, given: Sequence[Definition], file: Sequence[Definition]) -> None:
    """PatchError partial for a class that leaves out as many methods of its namesake as it repeats."""
    mine = _methods(definition, given)
    for namesake in file:
        if definition.kind != "class" or (namesake.kind, namesake.qualified) != (
            "class",
            definition.qualified,
        ):
            continue
        have = _methods(namesake, file)
        if have - mine and len(have & mine) <= len(have - mine):
            what = (
                f"the class {definition.name} of the answer leaves out {', '.join(sorted(have - mine)[:5])}"
            )
            raise PatchError(RefusalReason.PARTIAL, what)


def _methods(definition: Definition, file: Sequence[Definition]) -> set[str]:
    return {d.name for d in file if d.parents == definition.qualified}


def _header(node: ast.AST) -> list[str]:
    if not isinstance(node, ast.ClassDef):
        return []
    return [ast.unparse(part) for part in (*node.bases, *(keyword.value for keyword in node.keywords))]


# --- finding ------------------------------------------------------------------------------------------


def find_namesake(
    symbol: Symbol, file: Sequence[Definition], path: str, beside: Sequence[Symbol] = ()
) -> Definition | None:
    """The definition that `symbol` replaces, None when there is none; PatchError ambiguous for several.

    `beside` are all symbols of the answer: overloads that it gives as often as the file has them
    are taken in order.
    """
    found = [d for d in file if d.name == symbol.path[-1] and d.kind == symbol.definition.kind]
    if len(symbol.path) > 1:
        found = [d for d in found if d.parents[-len(symbol.path) + 1 :] == symbol.path[:-1]]
    level = [d for d in found if _same_depth(d, symbol)]
    found = level or found
    mates = [s for s in beside if s.path == symbol.path and s.definition.kind == symbol.definition.kind]
    if len(mates) > 1 and len(mates) == len(found) and len({d.parents for d in found}) == 1:
        return found[[mate is symbol for mate in mates].index(True)]
    if len(found) > 1:
        found = _same_decorators(found, symbol) or found
    if len(found) <= 1:
        return found[0] if found else None
    places = ", ".join(f"{'.'.join(d.qualified)} (line {d.header + 1})" for d in found[:5])
    what = f"{path} defines {symbol.name} {len(found)} times: {places}"
    raise PatchError(RefusalReason.AMBIGUOUS, what, path=path, closest=places)


def _same_depth(definition: Definition, symbol: Symbol) -> bool:
    if len(symbol.path) > 1:
        return definition.depth == symbol.definition.depth
    if symbol.given_indent:
        return definition.indent == symbol.given_indent
    return definition.depth == 0


def _same_decorators(found: list[Definition], symbol: Symbol) -> list[Definition]:
    """Getter and setter, or overloads, told apart by their decorators."""
    same = [d for d in found if d.decorators == symbol.definition.decorators]
    return same if len(same) == 1 else []


# --- replacing ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Placed:
    """Where the definitions of an answer go: over their namesakes, or beside their neighbours."""

    regions: dict[tuple[int, int], tuple[Definition, Symbol]] = field(default_factory=dict)
    helpers: dict[str, tuple[Symbol, Definition | None, Definition | None]] = field(default_factory=dict)

    def add(self, symbols: Sequence[Symbol], places: Sequence[Definition | None]) -> None:
        """Of several definitions for one place the last counts."""
        for number, (symbol, place) in enumerate(zip(symbols, places, strict=True)):
            if place is not None:
                self.regions[place.header, place.end] = (place, symbol)
                continue
            above = next((near for near in reversed(places[:number]) if near is not None), None)
            below = next((near for near in places[number:] if near is not None), None)
            self.helpers[symbol.name] = (symbol, above, below)

    def first_line(self, texts: Sequence[bytes]) -> int:
        return min((comments_start(texts, place) for place, _ in self.regions.values()), default=len(texts))


def symbol_hunks(data: bytes, codes: Sequence[CodeAnswer], path: str) -> tuple[list[Hunk], list[str]]:
    """The hunks that put definitions, imports and constants of an answer into the file, and notes.

    New helpers go beside their neighbours in the answer. PatchError no_match when the file knows
    none of the names, ambiguous for twins.
    """
    body = data.removeprefix(BOM)
    file = outline(body)
    placed = _Placed()
    for code in codes:
        symbols = wanted_symbols(code, file)
        placed.add(symbols, [find_namesake(symbol, file, path, symbols) for symbol in symbols])
    if not placed.regions and (placed.helpers or not any(code.imports for code in codes)):
        raise _unknown(placed.helpers, file, path)
    edit = _Editor(body, path, file)
    hunks = [edit.replacement(place, symbol) for place, symbol in placed.regions.values()]
    constants = [constant for code in codes for constant in code.kept_constants]
    hunks += constant_hunks(edit.lines, body, constants, placed.first_line(edit.texts), path)
    hunks += [edit.helper(*entry) for entry in placed.helpers.values()]
    wanted = [entry for code in codes for entry in code.imports]
    gap = next((code.gap for code in codes if code.imports), 2)
    hunks += import_hunks(data, wanted, gap, "the answer")
    notes = [f"{path}: {name} is new and was put beside its neighbours" for name in placed.helpers]
    return hunks, notes


def _unknown(names: Collection[str], file: Sequence[Definition], path: str) -> PatchError:
    if not names:
        what = f"the code of the answer defines nothing, so it has no place in {path}"
        return PatchError(RefusalReason.MALFORMED, what, path=path)
    have = "\n".join(f"{d.header + 1:>5} | {d.kind} {'.'.join(d.qualified)}" for d in file[:40])
    return PatchError(
        RefusalReason.NO_MATCH, f"{path} does not define {', '.join(names)}", path=path, closest=have
    )


class _Editor:
    """Turns symbols into hunks of one file."""

    def __init__(self, body: bytes, path: str, file: Sequence[Definition]) -> None:
        self.lines = split_lines(body)
        self.texts = [line.text for line in self.lines]
        self.encoding = declared_encoding(body)
        self.path, self.file = path, file

    def replacement(self, place: Definition, symbol: Symbol) -> Hunk:
        """Decorators of the answer replace those of the file; without any, the file's stay."""
        start = place.start if symbol.definition.decorators else place.header
        old = self.texts[start : place.end]
        style = style_of(place.indent, old, self.texts)
        new = self._new_lines(symbol, style, set(old))
        return rewrite_hunk(self.lines, start, place.end, new, symbol.name)

    def helper(self, symbol: Symbol, before: Definition | None, after: Definition | None) -> Hunk:
        """A definition the file lacks, behind the neighbour above it, else in front of the one below."""
        anchor = before or after
        assert anchor is not None
        inside = len(symbol.path) > 1 or anchor.depth == 0
        anchor = anchor if inside else self._outermost(anchor)
        style = style_of(anchor.indent, self.texts[anchor.start : anchor.end], self.texts)
        new = self._new_lines(symbol, style, set())
        blank = [b""] * (2 if anchor.depth == 0 else 1)
        new = [*self._commented(symbol, anchor), *new]
        index = anchor.end if before else comments_start(self.texts, anchor)
        lines = [*blank, *new] if before else [*new, *blank]
        ops = tuple(Op("+", text) for text in lines)
        return Hunk(ops, index, label=symbol.name, encoded=True)

    def _commented(self, symbol: Symbol, anchor: Definition) -> list[bytes]:
        comments = [anchor.indent + text.strip() for text in symbol.comments]
        return transcoded(comments, self.encoding, self.path, symbol.name)

    def _outermost(self, anchor: Definition) -> Definition:
        """A helper function goes outside the class whose method it helps."""
        around = [d for d in self.file if d.depth == 0 and d.start <= anchor.start and anchor.end <= d.end]
        return around[0] if around else anchor

    def _new_lines(self, symbol: Symbol, style: Style, known: set[bytes]) -> list[bytes]:
        lines = restyled(symbol.lines, symbol.source_indent, style, symbol.strings, known)
        return transcoded(lines, self.encoding, self.path, symbol.name)
