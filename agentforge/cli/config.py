"""`agentforge config`: what is set, and by whom."""

from __future__ import annotations

import typer

from agentforge.cli.output import ConfigOption, JsonOption, print_json, print_table, resolve_settings

app = typer.Typer(help="The resolved configuration and its origins.", rich_markup_mode=None)


@app.callback()
def config_group() -> None:
    """The resolved configuration and its origins."""


@app.command("show")
def show(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Every key, its value (secrets masked) and where it was set: default, file:line, variable or flag."""
    from agentforge.config.load import default_config_file, explain_settings

    rows = list(explain_settings(resolve_settings(config)))
    if as_json:
        print_json({key: {"value": value, "origin": origin} for key, value, origin in rows})
        return
    print_table(("KEY", "VALUE", "FROM"), [(key, _shown(value), origin) for key, value, origin in rows])
    print(f"\nThe user's own file: {default_config_file()}")


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
