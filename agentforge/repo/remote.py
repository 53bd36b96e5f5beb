"""Fetching a repository by URL into a bare repository of ours."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentforge.core.errors import RepositoryError
from agentforge.repo.git import FETCH_TIMEOUT_S, Git, GitFailure, network_environment, without_credentials
from agentforge.repo.shadow import make_git_dir

_SCHEMES = ("https", "http", "ssh", "git")
_SCP_LIKE = re.compile(r"^(?:[A-Za-z0-9_.][\w.-]*@)?[A-Za-z0-9][\w.-]*:(?!//).+$")
_PLAIN_REVISION = re.compile(r"^[A-Za-z0-9_][\w./+-]*$")
_FETCHED_HEAD = "refs/base/HEAD"
_EVERYTHING = (
    f"+HEAD:{_FETCHED_HEAD}",
    "+refs/heads/*:refs/heads/*",
    "+refs/heads/*:refs/remotes/origin/*",
    "+refs/tags/*:refs/tags/*",
)


def remote_url(source: str) -> str | None:
    """`source` when it is a URL that git may fetch, None when it is a path. Raises `RepositoryError`."""
    if not source.strip():
        raise RepositoryError("the repository's path is empty", hint="give --repo a path or a URL")
    if source.startswith("-"):
        raise RepositoryError(f"{source}: looks like an option", hint="write a path as ./-name")
    if re.match(r"^[A-Za-z0-9+.-]+::", source):
        raise RepositoryError(f"{without_credentials(source)}: transport helpers are refused", hint=_ALLOWED)
    scheme, separator, rest = source.partition("://")
    if separator:
        if scheme.lower() not in _SCHEMES:
            raise RepositoryError(f"{without_credentials(source)}: {scheme}:// is not allowed", hint=_ALLOWED)
        host = rest.partition("/")[0].rpartition("@")[2]
        if not host or host.startswith("-") or rest.startswith("-"):
            raise RepositoryError(f"{without_credentials(source)}: not a usable URL", hint=_ALLOWED)
        return source
    if _SCP_LIKE.match(source) and not Path(source).exists():
        return source
    return None


_ALLOWED = "use a local path, https://, ssh:// or file://"


def file_url_path(source: str) -> Path | None:
    """The local path of a `file://` URL: it is read in place, so nothing needs to be fetched."""
    if not source.lower().startswith("file://"):
        return None
    parts = urlsplit(source)
    if parts.netloc not in ("", "localhost"):
        raise RepositoryError(f"{source}: names another machine", hint="write file:///absolute/path")
    return Path(unquote(parts.path))


def fetch(url: str, revision: str | None, scratch: Path, addresses: Sequence[str] = ()) -> Git:
    """A bare repository under `scratch` with the commit asked for: one commit deep where the server can.

    With `addresses` nothing else is asked: the name is not looked up again, and no redirect is followed.
    """
    git = make_git_dir(Path(tempfile.mkdtemp(prefix="clone-", dir=scratch)), _FETCHED_HEAD)
    network = git.with_env(**network_environment(), GIT_ALLOW_PROTOCOL=":".join(_SCHEMES))
    network = replace(network, config=network.config + _pinned(url, addresses))
    if revision is None:
        _fetch(network, url, "--depth=1", f"+HEAD:{_FETCHED_HEAD}")
        return git
    if _PLAIN_REVISION.match(revision) and revision != "HEAD":
        try:
            _fetch(
                network, url, "--depth=1", f"+{revision}:{_FETCHED_HEAD}", f"+{revision}:refs/tags/{revision}"
            )
            return git
        except RepositoryError:
            # Not a name the server knows (a short id, an old commit): the history has to decide.
            git = make_git_dir(Path(tempfile.mkdtemp(prefix="clone-", dir=scratch)), _FETCHED_HEAD)
            network = replace(network, git_dir=git.git_dir)
    _fetch(network, url, *_EVERYTHING)
    return git


def _pinned(url: str, addresses: Sequence[str]) -> tuple[str, ...]:
    if not addresses:
        return ()
    parts = urlsplit(url)
    listed = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
    where = f"{parts.hostname}:{parts.port or 443}:{listed}"
    return (f"http.curloptResolve={where}", "http.followRedirects=false")


def _fetch(git: Git, url: str, *args: str) -> None:
    options = [arg for arg in args if arg.startswith("--")]
    refspecs = [arg for arg in args if not arg.startswith("--")]
    try:
        git.run(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            *options,
            "--",
            url,
            *refspecs,
            timeout_s=FETCH_TIMEOUT_S,
        )
    except GitFailure as failure:
        raise _explain(url, failure) from failure


def _explain(url: str, failure: GitFailure) -> RepositoryError:
    url = without_credentials(url)
    said = failure.stderr.lower()
    if "remote ref head" in said:
        return RepositoryError(f"{url}: the repository has no commits")
    if "could not read username" in said or "authentication" in said or "permission denied" in said:
        return RepositoryError(
            f"{url}: access was refused", hint="clone it yourself and give the path, or use ssh with an agent"
        )
    if "not found" in said or "does not exist" in said or "not appear to be a git" in said:
        return RepositoryError(f"{url}: no git repository there", hint="check the address")
    return RepositoryError(f"{url}: {failure.what}", hint="check the address and the network")
