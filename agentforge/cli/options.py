"""The options of `agentforge fix`: their names, and which setting each one is."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from agentforge.core.errors import UsageError

Repo = Annotated[str, typer.Option("--repo", metavar="PATH_OR_URL", help="Repository: a path or a git URL.")]
IssueSpec = Annotated[
    str,
    typer.Option("--issue", metavar="TEXT|@FILE|-|URL", help="The issue, or where it is."),
]
Base = Annotated[str | None, typer.Option("--base", metavar="REV", help="Revision to repair, else HEAD.")]
TestCommand = Annotated[
    str | None, typer.Option("--test", metavar="CMD", help="Test command instead of the detected one.")
]
TestIds = Annotated[
    list[str] | None,
    typer.Option("--test-id", metavar="ID", help="A test that fails now and must pass. May be repeated."),
]
Tests = Annotated[
    Literal["related", "all"] | None, typer.Option("--tests", help="Which tests a patch must keep passing.")
]
WorkflowName = Annotated[
    str | None, typer.Option("--workflow", metavar="NAME", help="Workflow: a shipped name or a YAML file.")
]
ModelName = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Model name.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", metavar="URL", help="OpenAI-compatible endpoint.")]
EditFormat = Annotated[
    Literal["auto", "diff", "search_replace", "symbol"] | None,
    typer.Option("--edit-format", help="How the model writes edits at first."),
]
Samples = Annotated[
    int,
    typer.Option(
        "--samples", metavar="K", min=1, help="K independent attempts; the gate, then the majority, selects."
    ),
]
Retries = Annotated[int | None, typer.Option("--retries", metavar="N", min=0, help="Debugger rounds.")]
Critic = Annotated[
    Literal["advisory", "gate", "off"] | None,
    typer.Option("--critic", help="May the critic veto (gate), only advise, or stay away?"),
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", metavar="USD", min=0, help="Most money for model calls.")
]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", metavar="N", min=0, help="Most tokens.")]
MaxCalls = Annotated[int | None, typer.Option("--max-calls", metavar="N", min=0, help="Most model calls.")]
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", metavar="S", help="Most seconds for the whole run.")
]
SandboxTimeout = Annotated[
    float | None, typer.Option("--sandbox-timeout", metavar="S", help="Most seconds of one test command.")
]
Setup = Annotated[
    list[str] | None,
    typer.Option("--setup", metavar="CMD", help="Command that prepares the environment. May be repeated."),
]
Image = Annotated[
    str | None, typer.Option("--image", metavar="IMAGE", help="Container image with everything installed.")
]
Apt = Annotated[
    list[str] | None,
    typer.Option("--apt", metavar="PACKAGE", help="Debian package the tests need. May be repeated."),
]
Dockerfile = Annotated[
    Path | None, typer.Option("--dockerfile", metavar="FILE", help="Builds the container image.")
]
Junit = Annotated[
    str,
    typer.Option("--junit", metavar="PATH", help="Where the command of --test leaves a JUnit report."),
]
IncludeUncommitted = Annotated[
    bool, typer.Option("--include-uncommitted", help="Take uncommitted changes into the base.")
]
Memory = Annotated[
    bool | None, typer.Option("--memory/--no-memory", help="Use and feed the memory of past fixes.")
]
Apply = Annotated[bool, typer.Option("--apply", help="Apply a verified patch to the working tree.")]
Branch = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="Commit a verified patch on a new branch.")
]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write the patch to a file, not to stdout.")
]
Stream = Annotated[bool, typer.Option("--stream/--no-stream", help="Live view, or plain lines.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would happen; no model call, no container.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say every step.")]

# Option -> the setting it overrides.
SETTINGS_BY_OPTION = {
    "workflow": "workflow",
    "model": "model.name",
    "base_url": "model.base_url",
    "edit_format": "model.edit_format",
    "retries": "retries",
    "critic": "critic",
    "max_cost": "limits.max_cost_usd",
    "max_tokens": "limits.max_tokens",
    "max_calls": "limits.max_calls",
    "time_limit": "limits.time_limit_s",
    "sandbox_timeout": "sandbox.timeout_s",
    "memory": "memory.enabled",
    "tests": "tests_scope",
}


def check_numbers(values: dict[str, Any]) -> None:
    """Limits that are numbers, but no limits. Raises `UsageError`."""
    for name in ("time_limit", "sandbox_timeout"):
        given = values[name]
        if given is not None and not (given > 0 and math.isfinite(given)):
            raise UsageError(f"--{name.replace('_', '-')} must be seconds above 0, got {given:g}")
    if values["max_cost"] is not None and not math.isfinite(values["max_cost"]):
        raise UsageError(
            f"--max-cost must be a number of US dollars, got {values['max_cost']:g}",
            hint="leave it out for no limit",
        )


@dataclass(frozen=True)
class FixOptions:
    """What was asked on the command line. None means "not said"."""

    repo: str
    issue: str
    base: str | None
    test: str | None
    test_id: tuple[str, ...]
    setup: tuple[str, ...]
    image: str | None
    apt: tuple[str, ...]
    dockerfile: Path | None
    junit: str
    include_uncommitted: bool
    apply: bool
    branch: str | None
    output: Path | None
    as_json: bool
    stream: bool
    dry_run: bool
    config: Path | None
    verbose: bool
    samples: int
    overrides: dict[str, object]

    @staticmethod
    def parse(values: dict[str, Any]) -> FixOptions:
        """Check what the parser cannot. Raises `UsageError`."""
        own = {field.name for field in fields(FixOptions)} - {"overrides"}
        kept = {name: value for name, value in values.items() if name in own}
        for name in ("test_id", "setup", "apt"):
            kept[name] = tuple(values[name] or ())
        overrides = {key: values[option] for option, key in SETTINGS_BY_OPTION.items()}
        options = FixOptions(**kept, overrides=overrides)
        options.check(values)
        return options

    def check(self, values: dict[str, Any]) -> None:
        ways = [name for name in ("apply", "branch", "output") if values[name] not in (None, False)]
        if len(ways) > 1:
            named = " and ".join(f"--{way}" for way in ways)
            raise UsageError(f"{named} exclude each other", hint="choose one way to take the patch")
        check_numbers(values)
        for name in ("repo", "test", "image", "branch", "base", "model", "base_url", "workflow"):
            if values[name] is not None and not values[name].strip():
                raise UsageError(f"--{name.replace('_', '-')} is empty")
        if self.junit and self.test is None:
            raise UsageError("--junit needs the command that writes it", hint="give it with --test")
        self._check_commands()

    def _check_commands(self) -> None:
        for option, text in [("--test", self.test), *(("--setup", command) for command in self.setup)]:
            if text is None:
                continue
            try:
                shlex.split(text)
            except ValueError as error:
                raise UsageError(f"{option} {text!r}: {error}", hint="check the quotes") from None
        if not all(test.strip() for test in self.test_id):
            raise UsageError("--test-id is empty", hint="give an id such as tests/test_a.py::test_one")
