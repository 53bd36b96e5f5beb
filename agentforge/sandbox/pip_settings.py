"""The host's pip settings, as far as a build container may have them."""

from __future__ import annotations

import ast
import os
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_PASSED = (
    "index-url",
    "extra-index-url",
    "trusted-host",
    "default-timeout",
    "timeout",
    "retries",
    "no-index",
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
CONTAINER_CA = "/job/host-ca.crt"
"""Where the bundle lies in a build container: in a volume, so that no commit keeps it."""


@dataclass(frozen=True)
class PipSettings:
    """Environment for pip in a build container, and the CA bundle to bind-mount read-only.

    The environment may hold credentials: give it to an exec, never to a container or an image.
    """

    environment: dict[str, str]
    ca_bundle: Path | None
    dropped: tuple[str, ...]
    """Settings that name folders of this host: a build runs foreign code and must not see them."""


def host_pip_settings() -> PipSettings:
    """Read them once per build; a host without pip has none."""
    environment: dict[str, str] = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_NO_CACHE_DIR": "1",
    }
    dropped: list[str] = []
    for name, value in _configured().items():
        kept = [word for word in value.split() if not _is_local(word)]
        if name not in _PASSED or len(kept) < len(value.split()):
            dropped.append(name)
        if name in _PASSED and kept:
            environment["PIP_" + name.upper().replace("-", "_")] = " ".join(kept)
    environment |= {name: os.environ[name] for name in _PROXIES if os.environ.get(name)}
    bundle = _ca_bundle()
    if bundle is not None:
        environment |= {
            "PIP_CERT": CONTAINER_CA,
            "SSL_CERT_FILE": CONTAINER_CA,
            "REQUESTS_CA_BUNDLE": CONTAINER_CA,
        }
    return PipSettings(environment, bundle, tuple(dropped))


def _configured() -> dict[str, str]:
    """`pip config list` by short name; the environment's values win over files', as in pip."""
    try:
        listing = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        listing = ""
    files: dict[str, str] = {}
    variables: dict[str, str] = {}
    for line in listing.splitlines():
        key, _, quoted = line.partition("=")
        section, _, name = key.rpartition(".")
        try:
            value = str(ast.literal_eval(quoted))
        except (ValueError, SyntaxError):
            continue
        if section == ":env:":
            variables[name] = value
        elif section in ("global", "install", "site", "user"):
            files[name] = value
    return files | variables


def _is_local(word: str) -> bool:
    return word.startswith(("file:", "/", "./", "~"))


def _ca_bundle() -> Path | None:
    candidates = [os.environ.get(name) for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")]
    candidates += [_configured().get("cert"), ssl.get_default_verify_paths().cafile]
    candidates += ["/etc/ssl/certs/ca-certificates.crt"]
    for candidate in candidates:
        if candidate and Path(candidate).is_file():
            return Path(candidate).resolve()
    return None
