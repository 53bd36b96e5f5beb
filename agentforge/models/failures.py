"""From what the client library or the wire says went wrong to our own errors."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from agentforge.core.redact import Redactor
from agentforge.models.errors import (
    AuthError,
    BadRequestError,
    ConnectionFailedError,
    ContentFilterError,
    ContextLengthError,
    EndpointError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
    StreamBrokenError,
    UnknownModelError,
)

if TYPE_CHECKING:
    import openai

CLIPPED = 300
CONTEXT_CODES = {"context_length_exceeded", "exceed_context_size_error"}
CONTEXT_WORDS = re.compile(
    r"maximum context length|context (size|window|length) (is|was )?exceeded"
    r"|exceeds? the (available )?context"
    r"|prompt is too long|too many tokens",
    re.IGNORECASE,
)
FILTER_CODES = {"content_filter", "content_policy_violation", "responsible_ai_policy_violation"}
QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached"}
# Transport errors, by name, after which the endpoint has certainly not seen the request.
UNSENT = {
    "ConnectError",
    "ConnectTimeout",
    "PoolTimeout",
    "ProxyError",
    "UnsupportedProtocol",
    "LocalProtocolError",
}


class Translator:
    """Makes an `EndpointError` of whatever failed. Texts are redacted, one line, and clipped."""

    def __init__(self, redactor: Redactor, now: Callable[[], datetime], timeout_s: float) -> None:
        self._redactor = redactor
        self._now = now
        self._timeout_s = timeout_s

    def status(self, error: openai.APIStatusError, model: str) -> EndpointError:
        """An answer with an HTTP error status."""
        kind = _kind_of_status(error.status_code, _codes(error), complaint(error))
        what = f"the endpoint answered {error.status_code} for model {model!r}: {self._line(_message(error))}"
        wait = retry_after_s(error.response.headers, self._now())
        return kind(what, status=error.status_code, retry_after_s=wait)

    def connection(self, error: openai.APIConnectionError, *, begun: bool) -> EndpointError:
        """No answer, or one that stopped half-way."""
        causes = list(_causes(error))
        names = {type(cause).__name__ for cause in causes}
        why = self._line(next((str(cause) for cause in causes[1:] if str(cause)), str(error)))
        if "Timeout" in type(error).__name__ and not names & UNSENT:
            return StreamBrokenError(f"no byte from the endpoint for {self._timeout_s:g} s", billed=True)
        if begun:
            return StreamBrokenError(f"the answer broke off: {why}", billed=True)
        failed = ConnectionFailedError(
            f"no answer from {self._line(str(error.request.url))}: {why}", billed=not names & UNSENT
        )
        hopeless = "UnsupportedProtocol" in names or any(
            isinstance(c, ssl.SSLCertVerificationError) for c in causes
        )
        failed.retryable = not hopeless
        return failed

    def event(self, error: openai.APIError, model: str) -> EndpointError:
        """An error event inside a stream that had begun."""
        text = self._line(_message(error))
        code = next((int(code) for code in _codes(error) if code.isdigit()), None)
        kind = _kind_of_status(code or 0, _codes(error), complaint(error))
        if kind is BadRequestError and not (code and 400 <= code < 500):
            kind = StreamBrokenError
        return kind(
            f"the endpoint gave up on model {model!r} in mid-answer: {text}", status=code, billed=True
        )

    def garbled(self, error: ValueError) -> EndpointError:
        """A chunk that is not JSON, or not UTF-8."""
        return StreamBrokenError(f"the answer is garbled: {self._line(str(error))}", billed=True)

    def not_a_stream(self, content_type: str, url: str) -> EndpointError:
        """200, but neither an event stream nor JSON: a web page, most likely."""
        return BadRequestError(
            f"{self._line(url)} answered with {self._line(content_type)}, not with an event stream",
            hint="check --base-url: it ends where /chat/completions begins (often /v1)",
        )

    def _line(self, text: str) -> str:
        plain = "".join(
            character if character.isprintable() else " " for character in self._redactor.text(text)
        )
        line = " ".join(plain.split())
        return line if len(line) <= CLIPPED else line[:CLIPPED] + " …"


def complaint(error: openai.APIError) -> str:
    """What the endpoint said about a refusal, for looking up the parameter it names."""
    return f"{error.param or ''} {error.message} {error.body}"


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds the endpoint asks to wait: `Retry-After` in seconds or as an HTTP date; None without one."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    wish = headers.get("retry-after")
    seconds = _number(wish)
    if seconds is not None or wish is None:
        return seconds
    try:
        moment = parsedate_to_datetime(wish)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\s*\d{1,9}(\.\d{1,6})?\s*", text) else None


def _kind_of_status(status: int, codes: set[str], text: str) -> type[EndpointError]:
    if codes & CONTEXT_CODES or (status in (400, 413, 500) and CONTEXT_WORDS.search(text)):
        return ContextLengthError
    if codes & FILTER_CODES:
        return ContentFilterError
    if codes & QUOTA_CODES:
        return QuotaExceededError
    if status in (401, 403):
        return AuthError
    if status == 404:
        return UnknownModelError
    if status == 429 or "rate_limit_exceeded" in codes:
        return RateLimitedError
    if status in (408, 409) or status >= 500:
        return ServerError
    return BadRequestError


def _codes(error: openai.APIError) -> set[str]:
    body: Any = error.body
    inner = body.get("innererror") if isinstance(body, Mapping) else None
    inner_code = inner.get("code") if isinstance(inner, Mapping) else None
    return {str(code).lower() for code in (error.code, error.type, inner_code) if code}


def _message(error: openai.APIError) -> str:
    body: Any = error.body
    said = body.get("message") if isinstance(body, Mapping) else body
    return said if isinstance(said, str) and said.strip() else error.message


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
