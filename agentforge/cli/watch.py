"""`agentforge watch`: follow a run of a server, as if it were made here."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from agentforge.core.errors import EnvironmentFault, ExitCode

app = typer.Typer(help="Follow a run of a server.", rich_markup_mode=None)


@app.command()
def watch(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id.")],
    server: Annotated[str, typer.Option("--server", metavar="URL", help="Where `agentforge serve` is.")],
    token_env: Annotated[
        str, typer.Option("--token-env", metavar="NAME", help="Environment variable that holds the token.")
    ] = "AGENTFORGE_TOKEN",  # noqa: S107  the name of a variable
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Live view, or plain lines.")] = True,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Every step.")] = False,
) -> None:
    """Show what a run did and does, to its end; comes back by itself when the connection breaks.

    Example: agentforge watch 20260101-120000-abc123 --server http://127.0.0.1:8765
    """
    from pydantic import ValidationError

    from agentforge.cli.view import watching
    from agentforge.client import Client
    from agentforge.core.events import EVENT_ADAPTER, RunFinished

    code: int = ExitCode.NO_VERIFIED_PATCH
    last: dict[str, Any] = {}
    with (
        Client(server, os.environ.get(token_env)) as client,
        watching(stream=stream, verbose=verbose) as listener,
    ):
        for streamed in client.events(run):
            if streamed.type == "run_status":
                last = streamed.data
                continue
            try:
                event = EVENT_ADAPTER.validate_python(streamed.data)
            except ValidationError:
                continue  # of a newer server
            listener(event)
            if isinstance(event, RunFinished):
                code = event.exit_code
    if last.get("status") == "failed":
        raise EnvironmentFault(f"the run could not be made: {last.get('error') or 'no reason was given'}")
    if last.get("status") == "cancelled":
        code = ExitCode.INTERRUPTED
    raise typer.Exit(code)
