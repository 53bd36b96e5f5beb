"""Which repositories a visitor may have the server read: listed folders and listed https hosts."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agentforge.api.problems import ApiError
from agentforge.config.settings import ServerSettings

Resolve = Callable[[str, int], Sequence[str]]
_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_ALLOWED = "a folder below the server's repository_roots, or https:// with a host of its repository_hosts"


def addresses(host: str, port: int) -> list[str]:
    """Every address of `host`. Blocking. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


@dataclass(frozen=True)
class Checked:
    """A repository as it may be opened; one with a URL at no other than these `addresses`, () for any."""

    source: str
    addresses: tuple[str, ...] = ()


def check_repository(source: str, settings: ServerSettings, resolve: Resolve = addresses) -> str:
    """`source` as it may be opened. Blocking. Raises `ApiError` (403) for anything that is not allowed."""
    return checked_repository(source, settings, resolve).source


def checked_repository(source: str, settings: ServerSettings, resolve: Resolve = addresses) -> Checked:
    """The same, with the addresses that were judged: asked again, the name could give others."""
    if "://" in source or re.match(r"^[A-Za-z0-9+.-]+::", source):
        return _checked_url(source, settings, resolve)
    return Checked(_checked_path(source, settings))


def _checked_path(source: str, settings: ServerSettings) -> str:
    if source.startswith(("-", "~")) or "\0" in source:
        raise _refused("it is not a plain path")
    path = Path(source)
    if not path.is_absolute():
        raise _refused("it is not an absolute path")
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        raise _refused("its links lead nowhere") from None
    for root in settings.repository_roots:
        if real.is_relative_to(Path(root).expanduser().resolve()):
            return str(real)
    raise _refused("it lies outside the folders that this server may read")


def _checked_url(source: str, settings: ServerSettings, resolve: Resolve) -> Checked:
    try:
        parts = urlsplit(source)
        host, port = (parts.hostname or "").rstrip("."), parts.port or 443
    except ValueError:
        raise _refused("it is not a usable URL") from None
    if _ODD.search(source) or parts.query or parts.fragment:
        raise _refused("it is not a plain URL")
    if parts.scheme.lower() != "https":
        raise _refused(f"{parts.scheme}:// is not allowed")
    if parts.username or parts.password:
        raise _refused("it carries credentials")
    if host.lower() not in {name.lower() for name in settings.repository_hosts}:
        raise _refused(f"{host} is not a listed host")
    if settings.allow_private_hosts:
        return Checked(source)
    return Checked(source, _public_addresses(host, port, resolve))


def _public_addresses(host: str, port: int, resolve: Resolve) -> tuple[str, ...]:
    """A listed name that answers with an inner address would let a visitor reach inside."""
    try:
        found = resolve(host, port)
    except OSError:
        raise ApiError(422, f"{host} cannot be resolved", hint="check the address") from None
    for address in found:
        if not _public(address):
            raise _refused(f"{host} has an address that is not public")
    return tuple(dict.fromkeys(found))


def _public(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo or (None, None))[1]
        if inner is not None:
            return _public(str(inner))
    return parsed.is_global and not parsed.is_multicast


def _refused(why: str) -> ApiError:
    return ApiError(403, f"this repository is refused: {why}", hint=_ALLOWED)
