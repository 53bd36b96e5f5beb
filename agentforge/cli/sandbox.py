"""`agentforge sandbox`: the container engine, its images, and what is left of old runs."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentforge.cli.dockerfile import read_dockerfile
from agentforge.cli.output import ConfigOption, JsonOption, print_json, resolve_settings
from agentforge.cli.sanitize import one_line
from agentforge.core.errors import ExitCode, ImageError

if TYPE_CHECKING:
    from agentforge.config.settings import SandboxSettings
    from agentforge.core.tree import Tree

app = typer.Typer(
    help="Containers and images in which repositories are executed.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def doctor(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check engine, disk, base image and limits by using them; exit 3 when something is wrong."""
    from agentforge.sandbox.doctor import diagnose

    checks = diagnose(_settings(config))
    healthy = all(check.ok for check in checks)
    if as_json:
        print_json({"ok": healthy, "checks": [check.model_dump() for check in checks]})
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {one_line(check.detail, 400)}")
            if check.advice and not (check.ok and check.name == "disk"):
                print(f"      -> {one_line(check.advice, 400)}")
    if not healthy:
        raise typer.Exit(ExitCode.ENVIRONMENT)


@app.command()
def build(
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether it is there; exit 3 if not.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build the base image, unless it is there and its recipe is unchanged."""
    from agentforge.sandbox.base_image import ensure_base_image, find_base_image
    from agentforge.sandbox.engine import connect

    settings = _settings(config)
    if check:
        with closing(connect()) as client:
            image_id = find_base_image(client, settings)
    else:
        image_id = ensure_base_image(settings, _progress)
    if image_id is None:
        raise ImageError(
            f"the base image {settings.base_image} is missing or out of date",
            hint="`agentforge sandbox build` makes it",
        )
    if as_json:
        print_json({"image": settings.base_image, "id": image_id})
    else:
        print(f"{settings.base_image} {image_id}")


@app.command()
def env(
    repo: Annotated[str, typer.Option("--repo", help="A path or a git URL.")] = ".",
    base: Annotated[
        str | None, typer.Option("--base", metavar="REV", help="Its revision, default HEAD.")
    ] = None,
    test: Annotated[str | None, typer.Option("--test", metavar="CMD", help="The test command.")] = None,
    setup: Annotated[
        list[str] | None, typer.Option("--setup", metavar="CMD", help="Run while building.")
    ] = None,
    apt: Annotated[
        list[str] | None, typer.Option("--apt", metavar="PACKAGE", help="A Debian package; may be repeated.")
    ] = None,
    image: Annotated[str | None, typer.Option("--image", help="An image of your own.")] = None,
    dockerfile: Annotated[
        Path | None, typer.Option("--dockerfile", metavar="FILE", help="Builds an image of your own.")
    ] = None,
    junit: Annotated[
        str, typer.Option("--junit", metavar="PATH", help="Where the test command leaves a JUnit report.")
    ] = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build or find the environment image of a repository, and say how its tests are run."""
    from agentforge.core.ports import EnvironmentSpec
    from agentforge.sandbox import DockerSandbox

    settings = _settings(config)
    tree, subdirectory = _open(repo, base)
    spec = EnvironmentSpec(
        image,
        tuple(setup or ()),
        test,
        subdirectory,
        apt=tuple(apt or ()),
        dockerfile=read_dockerfile(dockerfile, image),
        junit=junit,
    )
    made = asyncio.run(DockerSandbox(settings, "env", progress=_progress).prepare(tree, spec))
    if as_json:
        print_json(made.model_dump())
        return
    print(f"image    {made.image}")
    print(f"command  {one_line(' '.join(made.test_command), 400)}")
    for note in made.notes:
        print(f"         {one_line(note, 400)}")


@app.command()
def prune(
    older_than: Annotated[
        float,
        typer.Option("--older-than", metavar="DAYS", min=0, help="Age of environment images to remove."),
    ] = 30.0,
    keep: Annotated[
        float | None,
        typer.Option("--keep", metavar="GB", min=0, help="Remove the oldest images until this much is left."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove what dead runs left, and old environment images. Nothing of anybody else's."""
    from agentforge.sandbox.engine import connect
    from agentforge.sandbox.prune import prune as remove_unneeded

    with closing(connect()) as client:
        done = remove_unneeded(client, older_than_days=older_than, keep_gb=keep, dry_run=dry_run)
    if as_json:
        print_json(done.model_dump())
        return
    verb = "would remove" if dry_run else "removed"
    print(
        f"{verb} {len(done.containers)} containers, {len(done.volumes)} volumes, {len(done.images)} images "
        f"({done.image_bytes / 1e6:.0f} MB of their own)"
    )


def _settings(config: Path | None) -> SandboxSettings:
    return resolve_settings(config).settings.sandbox


def _open(repo: str, base: str | None) -> tuple[Tree, str]:
    from agentforge.core.task import RepositoryRef
    from agentforge.repo.intake import open_repository

    with tempfile.TemporaryDirectory(prefix="agentforge-") as scratch:
        opened = open_repository(RepositoryRef(source=repo, revision=base), Path(scratch))
        return opened.tree, opened.subdirectory


def _progress(line: str) -> None:
    print(one_line(line, 400), file=sys.stderr)
