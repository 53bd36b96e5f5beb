"""The one door to language models: any OpenAI-compatible endpoint, through the `openai` package."""

from __future__ import annotations

import asyncio
import importlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from agentforge.config.settings import AgentSettings, ModelSettings
from agentforge.core.chat import Completion, Message, ModelRequest
from agentforge.core.ports import TokenSink
from agentforge.core.redact import Redactor
from agentforge.models.endpoint import endpoint_url, is_loopback
from agentforge.models.errors import (
    BadRequestError,
    ConnectionFailedError,
    ContentFilterError,
    EmptyAnswerError,
    EndpointError,
    StreamBrokenError,
)
from agentforge.models.failures import Translator, complaint
from agentforge.models.ledger import CallAccount, Ledger, Reservation, estimate_prompt_tokens
from agentforge.models.wire import Answer, Dialect

if TYPE_CHECKING:
    import openai
    from tenacity import RetryCallState

LONGEST_WAIT_S = 60.0
NEVER_CONNECTED_RETRIES = 2
AFTER_FINISH_S = 5.0
"""How long usage and the end marker are waited for once the answer is complete."""
NO_KEY = "none"


@dataclass
class _Call:
    """One completion on its way, over all its attempts. `shown`: the sink has text of the current attempt."""

    request: ModelRequest
    sink: TokenSink | None
    account: CallAccount
    shown: bool = False

    def show(self, text: str) -> None:
        if text and self.sink is not None:
            self.shown = True
            self.sink.token(text)

    def start_over(self, reason: str) -> None:
        if self.shown and self.sink is not None:
            self.shown = False
            self.sink.reset(reason)


@dataclass
class _Knowledge:
    """What the client has learned of its endpoint."""

    dialect: Dialect = field(default_factory=Dialect)
    reached: bool = False


class OpenAIModel:
    """Implements `core.ports.Model`. Always streams; retries by itself (the package's retries are off).

    Retried, at most `max_retries` times with jittered back-off that honours `Retry-After` (at most 60 s):
    408, 409, 429, 5xx, failed connections, broken streams. A stream that broke after its first token is
    voided by `sink.reset`. `finish_reason` "length" is an answer like others; a content filter is an error.
    Every attempt is reserved in the ledger before and settled or released after it, cancelled ones too.
    The prompt is redacted. `sleep` and `now` are for tests.
    """

    def __init__(
        self,
        settings: ModelSettings,
        ledger: Ledger,
        *,
        agents: Mapping[str, AgentSettings] | None = None,
        redactor: Redactor | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._agents = dict(agents or {})
        self._ledger = ledger
        self._key = settings.api_key.get_secret_value() if settings.api_key else NO_KEY
        self._redactor = redactor or Redactor([self._key])
        self._sleep = sleep
        self._base_url = endpoint_url(settings)
        self._errors = Translator(self._redactor, now, settings.timeout_s)
        self._known = _Knowledge()

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """`request` as it is sent: defaults filled in (request, then agent, then model), prompt redacted."""
        agent = self._agents.get(request.agent, AgentSettings())
        model = self._settings
        clean = self._redactor.text
        cleaned = tuple(Message(role=said.role, content=clean(said.content)) for said in request.messages)
        return request.model_copy(
            update={
                "messages": cleaned,
                "model": _first(request.model, agent.model, model.name),
                "temperature": _first(request.temperature, agent.temperature, model.temperature),
                "seed": _first(request.seed, agent.seed, model.seed),
                "max_tokens": _first(request.max_tokens, agent.max_output_tokens, model.max_output_tokens),
            }
        )

    async def complete(
        self, request: ModelRequest, sink: TokenSink | None = None, account: CallAccount | None = None
    ) -> Completion:
        """One answer. Raises `EndpointError`, `LimitReached`; what it was billed is added to `account`."""
        call = _Call(self.resolve(request), sink, account or CallAccount())
        started = time.monotonic()
        async with self._connection() as client, self._deadline():
            answer = await self._persist(client, call)
        return Completion(
            text=answer.text,
            model=answer.model or str(call.request.model),
            finish_reason=answer.finish_reason or "",
            usage=answer.usage,
            cost_usd=call.account.cost_usd,
            latency_s=round(time.monotonic() - started, 6),
            retries=call.account.retries,
        )

    async def list_models(self) -> tuple[str, ...]:
        """The names the endpoint offers; one request, no retries. Raises `EndpointError`."""
        return tuple(name for card in await self.model_cards() if isinstance(name := card.get("id"), str))

    async def model_cards(self) -> tuple[dict[str, Any], ...]:
        """What the endpoint says of each model; some tell size and quantisation. As `list_models`."""
        import openai

        async with self._connection() as client:
            try:
                page = await client.models.list()
            except openai.APIStatusError as error:
                raise self._errors.status(error, self._settings.name) from None
            except openai.APIConnectionError as error:
                raise self._errors.connection(error, begun=False) from None
            except ValueError as error:
                raise self._errors.garbled(error) from None
        rows = page.data if isinstance(getattr(page, "data", None), list) else []
        return tuple(row.model_dump(mode="json") for row in rows if hasattr(row, "model_dump"))

    async def _persist(self, client: openai.AsyncOpenAI, call: _Call) -> Answer:
        """Attempts until one succeeds or none is worth making."""
        import tenacity

        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_worth_retrying),
            stop=self._enough,
            wait=_wait,
            before_sleep=lambda state: self._before_retry(state, call),
            sleep=self._sleep,
            reraise=True,
        )
        return await attempts(self._attempt, client, call)

    def _enough(self, state: RetryCallState) -> bool:
        retries = self._settings.max_retries
        if isinstance(_error(state), ConnectionFailedError) and not self._known.reached:
            retries = min(retries, NEVER_CONNECTED_RETRIES)
        return state.attempt_number > retries

    def _before_retry(self, state: RetryCallState, call: _Call) -> None:
        error = _error(state)
        call.start_over(error.what if isinstance(error, EndpointError) else "the stream broke")
        remaining = self._ledger.remaining_s()
        if remaining is not None and state.next_action is not None and state.next_action.sleep >= remaining:
            raise self._ledger.time_is_up() from None
        call.account.retries += 1

    async def _attempt(self, client: openai.AsyncOpenAI, call: _Call) -> Answer:
        """One attempt; repeated at once where the endpoint refuses a parameter we can do without."""
        while True:
            answer, arguments = Answer(), self._known.dialect.arguments(call.request)
            claim = self._reserve(call)
            try:
                await self._stream(client, arguments, answer, call)
                return _judged(answer)
            except _ParameterRefused as refusal:
                learned = self._known.dialect.learn(arguments, refusal.complaint)
                if learned is None:
                    raise refusal.error from None
                call.account.notes.append(f"the endpoint does not take {learned}")
            finally:
                _settle(claim, answer, call.account)

    def _reserve(self, call: _Call) -> Reservation:
        request = call.request
        prompt = estimate_prompt_tokens(request.messages)
        return self._ledger.reserve(str(request.model), prompt, request.max_tokens or 0, request.agent)

    async def _stream(
        self, client: openai.AsyncOpenAI, arguments: dict[str, Any], answer: Answer, call: _Call
    ) -> None:
        """Fill `answer` from one streamed response; whatever fails leaves as an `EndpointError`."""
        import httpx
        import openai

        model = str(call.request.model)
        try:
            await self._read(client, arguments, answer, call)
        except openai.APIStatusError as error:
            answer.refused = True
            self._known.reached = True
            ours = self._errors.status(error, model)
            if error.status_code in (400, 422) and isinstance(ours, BadRequestError):
                raise _ParameterRefused(ours, complaint(error)) from None
            raise ours from None
        except openai.APIConnectionError as error:
            failed = self._errors.connection(error, begun=answer.sent)
            answer.refused = not failed.billed
            if not _complete(answer):
                raise failed from None
        except openai.APIError as error:
            raise self._errors.event(error, model) from None
        except (ValueError, httpx.HTTPError) as error:
            if not _complete(answer):
                raise self._errors.garbled(ValueError(str(error))) from None

    async def _read(
        self, client: openai.AsyncOpenAI, arguments: dict[str, Any], answer: Answer, call: _Call
    ) -> None:
        stream = await cast(Any, client.chat.completions).create(**arguments)
        answer.sent = self._known.reached = True
        async with stream:
            kind = stream.response.headers.get("content-type", "")
            if kind.startswith("application/json"):
                call.show(answer.take_whole(await _whole(stream.response)))
            elif kind and not kind.startswith("text/event-stream"):
                answer.refused = True
                raise self._errors.not_a_stream(kind, str(stream.response.url))
            else:
                await self._read_chunks(stream, answer, call)

    async def _read_chunks(self, stream: Any, answer: Answer, call: _Call) -> None:
        """Until the end; once the answer is complete, usage and end marker have a few seconds."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as patience:
                async for chunk in stream:
                    call.show(answer.take(chunk))
                    if answer.runs_away(call.request.max_tokens):
                        answer.finish_reason = "length"
                        return
                    if answer.finish_reason is not None and patience.when() is None:
                        patience.reschedule(loop.time() + AFTER_FINISH_S)
        except TimeoutError:
            if not patience.expired():
                raise

    def _prepare(self) -> ssl.SSLContext:
        importlib.import_module("openai.types.chat")
        return self._certificates

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        """Read once: it takes a tenth of a second."""
        import httpx

        return httpx.create_ssl_context()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[openai.AsyncOpenAI]:
        """A client of the package for one call: nothing outlives it, and any event loop will do.

        Proxies from the environment do not apply to this machine's own addresses.
        """
        # Half a second at first: the event loop goes on.
        certificates = await asyncio.to_thread(self._prepare)
        import openai

        http = openai.DefaultAsyncHttpxClient(
            timeout=self._settings.timeout_s,
            trust_env=not is_loopback(self._base_url),
            verify=certificates,
        )
        async with openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self._base_url,
            max_retries=0,
            timeout=self._settings.timeout_s,
            http_client=http,
        ) as client:
            yield client

    @asynccontextmanager
    async def _deadline(self) -> AsyncIterator[None]:
        """Ends a call at the time limit."""
        try:
            async with asyncio.timeout(self._ledger.remaining_s()) as limit:
                yield
        except TimeoutError:
            if limit.expired():
                raise self._ledger.time_is_up() from None
            raise


class _ParameterRefused(Exception):
    """400 or 422: perhaps about a parameter we can do without."""

    def __init__(self, error: EndpointError, text: str) -> None:
        super().__init__(error.what)
        self.error = error
        self.complaint = text


def _judged(answer: Answer) -> Answer:
    """`answer`, if it is one."""
    if answer.finish_reason is None:
        raise StreamBrokenError("the answer ended without a finish reason", billed=True)
    if answer.finish_reason == "content_filter":
        raise ContentFilterError("the endpoint's content filter cut the answer", billed=True)
    if answer.refusal and not answer.pieces:
        raise ContentFilterError("the model refused to answer", billed=True)
    if answer.finish_reason != "length" and not answer.text.strip():
        raise EmptyAnswerError(
            f"the model's answer is empty (finish reason {answer.finish_reason})", billed=True
        )
    return answer


def _complete(answer: Answer) -> bool:
    """Nothing of the answer is missing, whatever became of the connection afterwards."""
    return answer.finish_reason is not None


def _settle(claim: Reservation, answer: Answer, account: CallAccount) -> None:
    if answer.refused:
        claim.release()
    else:
        account.charges.append(
            claim.settle(answer.usage, streamed_tokens=answer.streamed_tokens, model=answer.model)
        )


async def _whole(response: Any) -> Any:
    from openai.types.chat import ChatCompletion

    await response.aread()
    return ChatCompletion.model_construct(**response.json())


def _worth_retrying(error: BaseException) -> bool:
    return isinstance(error, EndpointError) and error.retryable


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def _wait(state: RetryCallState) -> float:
    """Seconds before the next attempt: the endpoint's wish and a little, else exponential with jitter."""
    import tenacity

    error = _error(state)
    if isinstance(error, EndpointError) and error.retry_after_s is not None:
        return min(error.retry_after_s, LONGEST_WAIT_S) + tenacity.wait_random(0, 0.25)(state)
    grown = tenacity.wait_exponential(multiplier=0.5, max=LONGEST_WAIT_S / 2)(state)
    return grown + tenacity.wait_random(0, 1)(state)


def _first(*values: Any) -> Any:
    """The first that is given."""
    return next((value for value in values if value is not None), None)
