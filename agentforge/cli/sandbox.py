"""`agentforge sandbox`: the container engine, its images, and what is left of old runs."""

from __future__ import annotations

from typing import NoReturn

import typer

from agentforge.config.settings import Settings
from agentforge.core.errors import AgentForgeError, ExitCode

app = typer.Typer(help="Containers and images in which repositories are executed.", no_args_is_help=True)


@app.command()
def build(
    check: bool = typer.Option(False, "--check", help="Only say whether it is there; exit 3 if not."),
) -> None:
    """Build the base image, unless it is there and its recipe is unchanged."""
    from agentforge.sandbox import base_image
    from agentforge.sandbox.engine import connect

    settings = Settings().sandbox
    try:
        if check:
            image_id = base_image.find_base_image(connect(), settings)
            if image_id is None:
                fail(f"the base image {settings.base_image} is missing (`agentforge sandbox build` makes it)")
        else:
            image_id = base_image.ensure_base_image(settings, lambda line: typer.echo(line, err=True))
    except AgentForgeError as error:
        fail(str(error), error.exit_code)
    typer.echo(f"{settings.base_image} {image_id}")


def fail(message: str, code: int = ExitCode.ENVIRONMENT) -> NoReturn:
    """One clear line on standard error, and the exit code."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


if __name__ == "__main__":
    app()
