"""A command group whose members are imported when they are called, so that `--help` is fast."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import typer.main
from typer.core import TyperGroup


class Member(NamedTuple):
    """Where a command lives and what the group's help says of it. `module` holds a typer app named `app`."""

    module: str
    help: str
    group: bool = True


class LazyGroup(TyperGroup):
    """Subclasses name their `members`; help and typo suggestions never import one."""

    members: Mapping[str, Member] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.members)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        member = self.members.get(cmd_name)
        if member is None:
            return None
        app: typer.Typer = import_module(member.module).app
        app.rich_markup_mode = None
        convert = typer.main.get_group if member.group else typer.main.get_command
        command = convert(app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.members:
            close = get_close_matches(name, self.members, n=2, cutoff=0.5)
            meant = " or ".join(f"`{match}`" for match in close)
            ctx.fail(f"no such command: `{name}`" + (f". Did you mean {meant}?" if meant else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, member.help) for name, member in self.members.items()])
