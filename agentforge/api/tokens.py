"""Who may come in: tokens, kept as hashes, and short-lived tickets for browsers' streams."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from agentforge.core.errors import ConfigError

TICKET_S = 60
_LINE = re.compile(r"^([A-Za-z0-9._-]{1,64}) sha256:([0-9a-f]{64})$")


class Tokens:
    """Names and hashes of tokens. A token has 256 random bits, so that a plain hash cannot be searched."""

    def __init__(self, hashes: dict[str, bytes]) -> None:
        self._hashes = hashes

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def __contains__(self, name: str) -> bool:
        return name in self._hashes

    @staticmethod
    def read(path: Path) -> Tokens:
        """Raises `ConfigError` for a file that cannot be read or holds something else than hashes."""
        try:
            lines = path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return Tokens({})
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the token file {path} cannot be read: {error}") from None
        hashes: dict[str, bytes] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            found = _LINE.match(line.strip())
            if found is None:
                raise ConfigError(
                    f"{path}:{number}: not a name and a hash",
                    hint="make tokens with `agentforge serve --token-file FILE --add-token NAME`",
                )
            hashes[found[1]] = bytes.fromhex(found[2])
        return Tokens(hashes)

    def holder(self, token: str) -> str | None:
        """The name that `token` belongs to. Takes the same time whatever is wrong with it."""
        given, found = _hash(token), None
        for name, known in self._hashes.items():
            if hmac.compare_digest(given, known):
                found = name
        return found


def add_token(path: Path, name: str) -> str:
    """A new token for `name`, shown this once; its hash is added to the file."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise ConfigError(f"{name!r} cannot name a token", hint="letters, digits, dot, dash, underscore")
    known = Tokens.read(path)
    if name in known:
        raise ConfigError(
            f"{path} has a token of {name} already", hint="take its line out first, or give another name"
        )
    token = secrets.token_urlsafe(32)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(handle, "a", encoding="utf-8") as file:
        # A first newline: the line before may lack its own. Empty lines mean nothing.
        before = "\n" if file.tell() else ""
        file.write(f"{before}{name} sha256:{_hash(token).hex()}\n")
    return token


class Tickets:
    """A ticket opens one stream, within `TICKET_S` seconds, and is known here by its hash alone.

    It stands in a URL, which logs, histories and proxies keep: used once, it is worth nothing to them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = 10_000) -> None:
        self._clock, self._most = clock, most
        self._ends: dict[bytes, tuple[float, str]] = {}

    def issue(self, holder: str) -> str:
        now = self._clock()
        self._ends = {key: entry for key, entry in self._ends.items() if entry[0] > now}
        while len(self._ends) >= self._most:
            del self._ends[next(iter(self._ends))]
        ticket = secrets.token_urlsafe(24)
        self._ends[_hash(ticket)] = (now + TICKET_S, holder)
        return ticket

    def take(self, ticket: str) -> str | None:
        """Whose ticket it was; None where it is unknown, too old or was used."""
        end, holder = self._ends.pop(_hash(ticket), (0.0, ""))
        return holder if end > self._clock() else None


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
