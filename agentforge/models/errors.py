"""What can go wrong with a model endpoint, each with advice; and which of it is worth another try."""

from __future__ import annotations

from agentforge.core.errors import ModelError


class EndpointError(ModelError):
    """Base of this module's errors.

    `retryable` says whether the same request may succeed later. `retry_after_s` is the endpoint's own
    wish in seconds, `status` its HTTP status (None where there was none). `billed` says whether the
    endpoint may charge for the attempt although it failed.
    """

    retryable: bool = False
    advice: str = ""

    def __init__(
        self,
        what: str,
        *,
        hint: str = "",
        status: int | None = None,
        retry_after_s: float | None = None,
        billed: bool = False,
    ) -> None:
        super().__init__(what, hint=hint or self.advice)
        self.status = status
        self.retry_after_s = retry_after_s
        self.billed = billed


class AuthError(EndpointError):
    """401 or 403."""

    advice = "check the API key (model.api_key) and that it may use this model"


class UnknownModelError(EndpointError):
    """404: no such model, or no such path."""

    advice = "check model.name, and that model.base_url ends where /chat/completions begins (often /v1)"


class BadRequestError(EndpointError):
    """Another 4xx, or an answer that is not of this protocol: asking again cannot help."""

    advice = "check that model.base_url is an OpenAI-compatible endpoint and model.name one it serves"


class ContentFilterError(EndpointError):
    """The endpoint's filter refused the prompt or cut the answer."""

    advice = "reword the issue, or use another model"


class ContextLengthError(EndpointError):
    """Prompt and reserved output do not fit into the model's context."""

    advice = "lower model.context_tokens or model.max_output_tokens, or use a model with a longer context"


class QuotaExceededError(EndpointError):
    """429 that waiting does not cure: the account has no money left."""

    advice = "the account behind the API key is out of quota: add credit or use another key"


class EmptyAnswerError(EndpointError):
    """The model ended normally and said nothing."""

    advice = "use another model or raise the temperature"


class RateLimitedError(EndpointError):
    """429."""

    retryable = True
    advice = "too many requests for this key: wait, or raise model.max_retries"


class ServerError(EndpointError):
    """408, 409 or 5xx."""

    retryable = True
    advice = "the endpoint is in trouble: try again later"


class ConnectionFailedError(EndpointError):
    """No connection, or none that lasted until the answer began."""

    retryable = True
    advice = "check model.base_url and that the server is running and reachable"


class StreamBrokenError(EndpointError):
    """The answer began and did not end as the protocol demands, or no byte came for `timeout_s`."""

    retryable = True
    advice = "the connection is unstable or the server died: try again, or raise model.timeout_s"
