"""Where requests go."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from agentforge.config.settings import ModelSettings
from agentforge.core.errors import ConfigError
from agentforge.core.redact import Redactor

OPENAI_URL = "https://api.openai.com/v1"


def endpoint_url(settings: ModelSettings) -> str:
    """The base URL without its last slash; the vendor's own where none is set.

    Raises `ConfigError` where it is no http(s) URL.
    """
    url = OPENAI_URL if settings.base_url is None else settings.base_url
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        hint = "for example http://127.0.0.1:8080/v1"
        raise ConfigError(f"model.base_url is not an http(s) URL: {Redactor().text(url)!r}", hint=hint)
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Whether `url` points to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
