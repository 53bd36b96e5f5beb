"""The one place where git is started (design, section 7, rule 1).

A repository under repair may be hostile, and git runs what its configuration names: hooks, filters,
fsmonitor, text converters, external diffs, proxies. Two walls keep that from happening. Every call made
here carries options that switch such features off and an environment built from nothing. And the git
directory a call works on is always one that we wrote: a user's repository is read through a `shadow`
(see `agentforge.repo.shadow`) whose configuration is ours, so keys with open names (`filter.*`,
`diff.*.textconv`, `include.path`, `alias.*`, `submodule.*.update`) are never even read.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentforge.core.errors import RepositoryError

NOWHERE = "/dev/null"
LOCAL_TIMEOUT_S = 300.0
FETCH_TIMEOUT_S = 1800.0

# Each of these makes git start a program, ask a person, or write behind our back.
_HARDENING = (
    f"core.hooksPath={NOWHERE}",
    "core.fsmonitor=false",
    f"core.attributesFile={NOWHERE}",
    f"core.excludesFile={NOWHERE}",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=",
    "core.gitProxy=none",
    "core.alternateRefsCommand=true",
    "core.sshCommand=ssh -o BatchMode=yes -o PermitLocalCommand=no",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "core.autocrlf=false",
    "core.logAllRefUpdates=false",
    "credential.helper=",
    "gpg.program=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
)
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": NOWHERE,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    # Beats any configuration: a partial clone must not fetch what it lacks.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_SSH_VARIANT": "ssh",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "LC_ALL": "C",
    "LANGUAGE": "C",
}
# What a fetch may take from the user's surroundings: the way out, whom to trust, the ssh agent.
_NETWORK_ENVIRONMENT = (
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "SSH_AUTH_SOCK",
)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


class GitFailure(RepositoryError):
    """A git command ended badly. `status` is its exit code (None: killed by our timeout)."""

    def __init__(self, what: str, *, status: int | None, stderr: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.status = status
        self.stderr = stderr


def without_credentials(text: str) -> str:
    """`text` with the user:password part of every URL taken out."""
    return _CREDENTIALS.sub("", text)


@dataclass(frozen=True)
class Git:
    """git on one git directory of ours. `env` and `config` are added to the hardened ones."""

    git_dir: Path
    work_tree: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    config: tuple[str, ...] = ()

    def with_index(self, index: Path) -> Git:
        """The same repository with another index file."""
        return replace(self, env={**self.env, "GIT_INDEX_FILE": str(index)})

    def with_env(self, **env: str) -> Git:
        return replace(self, env={**self.env, **env})

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        timeout_s: float = LOCAL_TIMEOUT_S,
        ok: tuple[int, ...] = (0,),
    ) -> bytes:
        """Standard output of `git ARGS`. Raises `GitFailure`. Blocking: use `asyncio.to_thread`."""
        trees = [f"--work-tree={self.work_tree}"] if self.work_tree else []
        options = [f"--git-dir={self.git_dir}", *trees, "--no-pager", "--no-replace-objects"]
        safe = (f"safe.directory={self.work_tree or self.git_dir}",)
        settings = [part for item in _HARDENING + self.config + safe for part in ("-c", item)]
        environment = {**_ENVIRONMENT, **self.env}
        cwd = self.work_tree or self.git_dir
        return execute([*options, *settings, *args], environment, cwd, stdin, timeout_s, ok, args[0])

    def text(self, *args: str, stdin: bytes = b"") -> str:
        """Standard output as text without its last newline."""
        return self.run(*args, stdin=stdin).decode("utf-8", "surrogateescape").removesuffix("\n")


def execute(
    args: list[str],
    environment: Mapping[str, str],
    cwd: Path,
    stdin: bytes,
    timeout_s: float,
    ok: tuple[int, ...],
    name: str,
) -> bytes:
    """Run git through GitPython's runner with exactly `environment` and an absolute PATH."""
    runner = _runner(cwd)
    # The runner adds to the inherited environment; `env -i` starts from nothing instead.
    wiped = ["env", "-i", f"PATH={_search_path()}", *(f"{k}={v}" for k, v in environment.items())]
    with contextlib.ExitStack() as stack:
        source = None
        if stdin:
            source = stack.enter_context(tempfile.TemporaryFile())
            source.write(stdin)
            source.seek(0)
        status, out, err = runner.execute(
            [*wiped, "git", *args],
            istream=source,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
            kill_after_timeout=timeout_s,
            shell=False,
        )
    if status in ok:
        return bytes(out)
    raise _failure(name, int(status), without_credentials(err), timeout_s)


def network_environment() -> dict[str, str]:
    """Proxy, trust and ssh-agent variables of this process, for a fetch."""
    return {name: os.environ[name] for name in _NETWORK_ENVIRONMENT if name in os.environ}


def read_config(path: Path, *, trusted: bool = False) -> dict[str, str]:
    """A configuration file as text values by lower-case key; nothing it names is run.

    Included files are followed only when `trusted`. A missing or broken file has no values.
    """
    if not path.is_file():
        return {}
    environment = {**_ENVIRONMENT, "HOME": str(Path.home())} if trusted else _ENVIRONMENT
    includes = "--includes" if trusted else "--no-includes"
    command = ["config", f"--file={path}", includes, "--list", "-z"]
    try:
        listed = execute(command, environment, Path("/"), b"", LOCAL_TIMEOUT_S, (0,), "config")
    except GitFailure:
        return {}
    pairs = (item.partition("\n") for item in listed.decode("utf-8", "replace").split("\0") if item)
    # A key without "=" is a true boolean.
    return {key: value if newline else "true" for key, newline, value in pairs}


def user_config() -> dict[str, str]:
    """The user's own (trusted) configuration, e.g. `user.name`."""
    return {
        **read_config(user_config_home() / "config", trusted=True),
        **read_config(Path.home() / ".gitconfig", trusted=True),
    }


def user_config_home() -> Path:
    """Where git keeps a user's `config` and `ignore`."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git"


def _search_path() -> str:
    """PATH without relative entries: nothing in the folder we work in may pass for git."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if entry.startswith("/"))


def _runner(cwd: Path) -> Any:
    try:
        from git.cmd import Git as Runner
    except ImportError as error:
        raise RepositoryError("git cannot be started", hint="install git 2.34 or newer") from error
    return Runner(str(cwd))


def _failure(name: str, status: int, stderr: str, timeout_s: float) -> GitFailure:
    if stderr.startswith("Timeout: the command"):
        return GitFailure(f"git {name} took longer than {timeout_s:g} s", status=None, stderr="")
    if status == 127:
        return GitFailure("git is not on PATH", status=status, stderr=stderr, hint="install git")
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
    return GitFailure(f"git {name} failed: {said or f'exit code {status}'}", status=status, stderr=stderr)
