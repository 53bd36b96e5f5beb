"""Definitions of JavaScript, TypeScript, Java, Go, Rust, C and C++ by tree-sitter, where it is installed.

The grammars are optional (`pip install …[languages]`); without one the file is cut into plain windows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_DEPTH = 200
_TIME_CAP_BYTES = 400_000
"""Larger files are cut into windows: parse time must stay bounded whatever they hold."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A named piece of a file: 1-based inclusive lines, `head` the line where its name stands."""

    name: str
    is_class: bool
    start_line: int
    head: int
    end_line: int
    body_line: int
    docstring: str = ""
    children: tuple[Definition, ...] = ()


@dataclass(frozen=True)
class Grammar:
    """Where a language's parser is, and which of its nodes define something."""

    module: str
    function: str = "language"
    classes: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    """Nodes that only lend their name to what they hold: a Rust `impl`, a C++ namespace."""
    imports: frozenset[str] = frozenset()


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_SCRIPT_FUNCTIONS = _set(
    "function_declaration generator_function_declaration method_definition variable_declarator "
    "field_definition public_field_definition"
)
_JAVASCRIPT = Grammar(
    "tree_sitter_javascript",
    classes=_set("class_declaration"),
    functions=_SCRIPT_FUNCTIONS,
    imports=_set("import_statement"),
)
_TYPESCRIPT_CLASSES = _set(
    "class_declaration abstract_class_declaration interface_declaration enum_declaration "
    "type_alias_declaration internal_module module"
)
_TYPESCRIPT = Grammar(
    "tree_sitter_typescript",
    "language_typescript",
    _TYPESCRIPT_CLASSES,
    _SCRIPT_FUNCTIONS,
    imports=_set("import_statement"),
)
_TSX = Grammar(
    "tree_sitter_typescript",
    "language_tsx",
    _TYPESCRIPT_CLASSES,
    _SCRIPT_FUNCTIONS,
    imports=_set("import_statement"),
)
_JAVA = Grammar(
    "tree_sitter_java",
    classes=_set(
        "class_declaration interface_declaration enum_declaration record_declaration "
        "annotation_type_declaration"
    ),
    functions=_set("method_declaration constructor_declaration compact_constructor_declaration"),
    imports=_set("import_declaration"),
)
_GO = Grammar(
    "tree_sitter_go",
    classes=_set("type_spec"),
    functions=_set("function_declaration method_declaration"),
    imports=_set("import_spec"),
)
_RUST = Grammar(
    "tree_sitter_rust",
    classes=_set("struct_item enum_item trait_item union_item"),
    functions=_set("function_item macro_definition"),
    scopes=_set("impl_item mod_item"),
    imports=_set("use_declaration"),
)
_C = Grammar(
    "tree_sitter_c",
    classes=_set("struct_specifier union_specifier enum_specifier"),
    functions=_set("function_definition"),
    imports=_set("preproc_include"),
)
_CPP = Grammar(
    "tree_sitter_cpp",
    classes=_set("class_specifier struct_specifier union_specifier enum_specifier"),
    functions=_set("function_definition"),
    scopes=_set("namespace_definition"),
    imports=_set("preproc_include"),
)
_BY_SUFFIX = {
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), _JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TYPESCRIPT),
    ".tsx": _TSX,
    ".java": _JAVA,
    ".go": _GO,
    ".rs": _RUST,
    ".c": _C,
    **dict.fromkeys((".h", ".cc", ".cpp", ".cxx", ".hpp"), _CPP),
}
_WRAPPERS = frozenset({"export_statement", "template_declaration", "decorated_definition"})
_NAME = re.compile(r"[\w$~:.<>*&, ]{1,120}")
_IMPORTED = re.compile(r"""["'<]([^"'<>\n]{1,200})["'>]|(?:import|use)\s+(?:static\s+)?([\w.:*]+)""")


def parse(path: str, text: str) -> tuple[tuple[Definition, ...], tuple[str, ...]] | None:
    """(definitions, imports) of a file, or None where no grammar reads it."""
    grammar = _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())
    if grammar is None or len(text) > _TIME_CAP_BYTES:
        return None
    parser = _parser(grammar)
    if parser is None:
        return None
    root = parser.parse(text.encode("utf-8", "replace")).root_node
    return tuple(_definitions(root, grammar, "", 0)), tuple(dict.fromkeys(_imports(root, grammar)))


@lru_cache(maxsize=16)
def _parser(grammar: Grammar) -> Parser | None:
    try:
        from tree_sitter import Language, Parser

        module = import_module(grammar.module)
        return Parser(Language(getattr(module, grammar.function)()))
    except (ImportError, ValueError):  # not installed, or of a version the other does not speak
        return None


def _definitions(node: Node, grammar: Grammar, prefix: str, depth: int) -> Iterator[Definition]:
    if depth > MAX_DEPTH:
        return
    for child in node.named_children:
        name = _name(child)
        if child.type in grammar.scopes and name:
            yield from _definitions(child, grammar, f"{prefix}{name}.", depth + 1)
        elif name and child.type in grammar.classes and _is_definition(child):
            yield _definition(child, grammar, f"{prefix}{name}", depth, is_class=True)
        elif name and child.type in grammar.functions and _is_function(child):
            yield _definition(child, grammar, f"{prefix}{name}", depth, is_class=False)
        else:
            yield from _definitions(child, grammar, prefix, depth + 1)


def _definition(node: Node, grammar: Grammar, name: str, depth: int, *, is_class: bool) -> Definition:
    outer = node
    while outer.parent is not None and outer.parent.type in _WRAPPERS | {
        "lexical_declaration",
        "variable_declaration",
        "type_declaration",
    }:
        if outer.parent.named_child_count > 1 and outer.parent.type.endswith("declaration"):
            break
        outer = outer.parent
    body = node.child_by_field_name("body") or node
    children = tuple(_definitions(body, grammar, f"{name}.", depth + 1)) if is_class else ()
    first, comment = _with_comment(outer)
    return Definition(
        name,
        is_class,
        first,
        node.start_point[0] + 1,
        _end_line(outer),
        body.start_point[0] + 1,
        comment,
        children,
    )


def _end_line(node: Node) -> int:
    row, column = node.end_point
    return row + 1 if column or row == node.start_point[0] else row


def _with_comment(node: Node) -> tuple[int, str]:
    """First line of the comment that stands directly above, and its text."""
    first, texts = node.start_point[0] + 1, list[str]()
    before = node.prev_named_sibling
    while before is not None and "comment" in before.type and _end_line(before) == first - 1:
        first = before.start_point[0] + 1
        texts.insert(0, _text(before))
        before = before.prev_named_sibling
    return first, "\n".join(texts)


def _is_definition(node: Node) -> bool:
    """Where C only names a struct there is no body; a Go type never has one."""
    return node.type == "type_spec" or node.child_by_field_name("body") is not None


def _is_function(node: Node) -> bool:
    """A variable or field counts where its value is a function."""
    if node.type in ("variable_declarator", "field_definition", "public_field_definition"):
        value = node.child_by_field_name("value")
        return value is not None and value.type in ("arrow_function", "function_expression", "function")
    return node.child_by_field_name("body") is not None


def _name(node: Node) -> str:
    found = node.child_by_field_name("name") or node.child_by_field_name("property")
    if found is None and node.type == "impl_item":
        found = node.child_by_field_name("type")
    if found is None and node.type == "function_definition":
        found = _declared(node)
    name = _text(found).strip() if found is not None else ""
    receiver = node.child_by_field_name("receiver")
    if receiver is not None:
        types = re.findall(r"[A-Za-z_]\w*", _text(receiver))
        name = f"{types[1] if len(types) > 1 else types[0]}.{name}" if types else name
    return name.replace("::", ".") if _NAME.fullmatch(name) else ""


def _declared(node: Node) -> Node | None:
    """The name inside a C declarator, through pointers and references."""
    inner = node.child_by_field_name("declarator")
    for _ in range(MAX_DEPTH):
        if inner is None or inner.type in ("identifier", "field_identifier", "qualified_identifier"):
            break
        following = inner.child_by_field_name("declarator")
        inner = following or (inner.named_children[-1] if inner.type == "reference_declarator" else inner)
        if following is None and inner.type != "function_declarator":
            break
    return inner


def _imports(root: Node, grammar: Grammar) -> Iterator[str]:
    pending = list(root.named_children)
    while pending:
        node = pending.pop()
        if node.type in grammar.imports:
            found = _IMPORTED.findall(_text(node))
            quoted = [name for name, _ in found if name]
            yield from quoted or [name.replace("::", ".") for _, name in found]
        elif node.type in ("import_declaration", "import_spec_list"):
            pending.extend(node.named_children)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
