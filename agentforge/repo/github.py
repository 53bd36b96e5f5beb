"""Issues of GitHub, over its REST API (also of an Enterprise server)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin, urlsplit

from agentforge.core.errors import EnvironmentFault, UsageError
from agentforge.core.task import Issue

if TYPE_CHECKING:
    import httpx

GITHUB_API = "https://api.github.com"
MAX_TEXT = 1024 * 1024
_MAX_REDIRECTS = 5
_MAX_PAGES = 100
_PATH = re.compile(
    r"^/(?P<owner>[A-Za-z0-9][A-Za-z0-9-]*)/(?P<name>(?!\.{1,2}/)[A-Za-z0-9._-]+)/(?P<kind>issues|pull)/(?P<number>[0-9]{1,10})/?$"
)
_TOKEN_HINT = "set GITHUB_TOKEN"  # noqa: S105 (the name of a variable)
Cause = Literal[
    "not_found", "unauthorized", "rate_limit", "timeout", "unreachable", "bad_answer", "pull_request"
]


class IssueTrackerError(EnvironmentFault):
    """The tracker did not give the issue; `cause` says why."""

    def __init__(self, cause: Cause, what: str, *, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class IssueAddress:
    owner: str
    name: str
    number: int
    url: str

    @property
    def api_path(self) -> str:
        return f"/repos/{self.owner}/{self.name}/issues/{self.number}"


def issue_address(url: str, github_api: str = GITHUB_API) -> IssueAddress:
    """What a GitHub issue URL names. Raises `UsageError` for every other URL."""
    parts = urlsplit(url)
    api_host = urlsplit(github_api).hostname or ""
    hosts = {"github.com", "www.github.com", api_host, api_host.removeprefix("api.")}
    found = _PATH.match(parts.path)
    if parts.hostname not in hosts or found is None:
        raise UsageError(
            f"{url}: not a GitHub issue URL",
            hint="use https://github.com/OWNER/NAME/issues/N, or give the text itself",
        )
    if found["kind"] == "pull":
        raise _pull_request(url)
    return IssueAddress(found["owner"], found["name"], int(found["number"]), url)


def github_issue(
    address: IssueAddress, *, github_api: str = GITHUB_API, token: str | None = None, timeout_s: float = 20.0
) -> Issue:
    """Title, body and all comments, each under its author's name. Raises `IssueTrackerError`."""
    import httpx

    headers = {"Accept": "application/vnd.github+json", "User-Agent": "agentforge"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    base = github_api.rstrip("/")
    with httpx.Client(headers=headers, timeout=timeout_s, follow_redirects=False) as client:
        tracker = _Tracker(client, base, address)
        issue, url = tracker.get(base + address.api_path)
        if not isinstance(issue, dict) or not isinstance(issue.get("title"), str):
            raise IssueTrackerError("bad_answer", f"{address.url}: the answer is not an issue")
        if "pull_request" in issue:
            raise _pull_request(address.url)
        comments = list(tracker.pages(f"{url}/comments?per_page=100")) if issue.get("comments", 1) else []
    return Issue(text=_text(issue, comments), title=_clean(issue["title"]).strip(), source=address.url)


@dataclass(frozen=True, slots=True)
class _Tracker:
    client: httpx.Client
    base: str
    address: IssueAddress

    def get(self, url: str) -> tuple[Any, str]:
        """The JSON at `url` and the address it was finally found at."""
        response, final = self._follow(url)
        return self._json(response), final

    def pages(self, url: str) -> Iterator[dict[str, Any]]:
        """The items of every page, following the `next` links."""
        following: str | None = url
        size = 0
        for _ in range(_MAX_PAGES):
            if following is None:
                return
            response, final = self._follow(following)
            items = self._json(response)
            if not isinstance(items, list):
                raise IssueTrackerError("bad_answer", f"{self.address.url}: the comments are not a list")
            for item in items:
                if isinstance(item, dict):
                    size += len(str(item.get("body") or ""))
                    yield item
            link = response.links.get("next", {}).get("url")
            following = urljoin(final, link) if link and size <= MAX_TEXT else None

    def _follow(self, url: str) -> tuple[httpx.Response, str]:
        for _ in range(_MAX_REDIRECTS):
            # The token goes with every request, so no link may lead away from the configured API.
            if _origin(url) != _origin(self.base):
                raise IssueTrackerError(
                    "bad_answer", f"{self.address.url}: the API sends us to another server"
                )
            response = self._request(url)
            if response.status_code not in (301, 302, 307, 308):
                self._check(response)
                return response, url
            url = urljoin(url, response.headers.get("location", ""))
        raise IssueTrackerError("bad_answer", f"{self.address.url}: too many redirects")

    def _request(self, url: str) -> httpx.Response:
        import httpx

        where = f"{self.address.url}: {urlsplit(self.base).netloc}"
        try:
            return self.client.get(url)
        except httpx.TimeoutException as error:
            raise IssueTrackerError("timeout", f"{where} did not answer in time", hint=_PASTE) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise IssueTrackerError(
                "unreachable", f"{where} cannot be reached: {error}", hint=_PASTE
            ) from error

    def _check(self, response: httpx.Response) -> None:
        status, url = response.status_code, self.address.url
        if status == 200:
            return
        if status == 429 or (status == 403 and _is_rate_limit(response)):
            raise IssueTrackerError(
                "rate_limit", f"{url}: the API's rate limit is used up{_reset(response)}", hint=_TOKEN_HINT
            )
        if status in (401, 403):
            raise IssueTrackerError(
                "unauthorized",
                f"{url}: access was refused ({status})",
                hint=f"{_TOKEN_HINT} to a token that may read it",
            )
        if status in (404, 410):
            raise IssueTrackerError(
                "not_found", f"{url}: no such issue", hint=f"if the repository is private, {_TOKEN_HINT}"
            )
        raise IssueTrackerError("bad_answer", f"{url}: the API answered {status}", hint=_PASTE)

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError as error:
            raise IssueTrackerError(
                "bad_answer", f"{self.address.url}: the answer is not JSON", hint="check the API's address"
            ) from error


_PASTE = "try again, or give the issue's text itself"


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _is_rate_limit(response: httpx.Response) -> bool:
    exhausted = response.headers.get("x-ratelimit-remaining") == "0"
    return exhausted or "retry-after" in response.headers or "rate limit" in response.text.lower()


def _reset(response: httpx.Response) -> str:
    if (wait := response.headers.get("retry-after", "")).isdigit():
        return f"; try again in {wait} s"
    if (at := response.headers.get("x-ratelimit-reset", "")).isdigit():
        return f"; it resets at {datetime.fromtimestamp(int(at), UTC):%Y-%m-%d %H:%M} UTC"
    return ""


def _pull_request(url: str) -> IssueTrackerError:
    return IssueTrackerError(
        "pull_request", f"{url}: is a pull request, not an issue", hint="give the issue that it is about"
    )


def _text(issue: dict[str, Any], comments: list[dict[str, Any]]) -> str:
    parts = [_clean(issue["title"]).strip(), _body(issue)]
    total = sum(map(len, parts))
    reporter = _author(issue)
    for index, comment in enumerate(comments):
        author = _author(comment)
        part = f"Comment by {author}{' (reporter)' if author == reporter else ''}:\n{_body(comment)}"
        total += len(part)
        if total > MAX_TEXT:
            parts.append(f"({len(comments) - index} more comments left out: larger than 1 MB)")
            break
        parts.append(part)
    return "\n\n".join(part for part in parts if part)


def _body(item: dict[str, Any]) -> str:
    body = item.get("body")
    return _clean(body)[:MAX_TEXT].strip("\n") if isinstance(body, str) else ""


def _clean(text: str) -> str:
    """JSON can carry NUL and half surrogates; text for a prompt cannot."""
    return text.replace("\r\n", "\n").replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _author(item: dict[str, Any]) -> str:
    user = item.get("user")
    return _clean(str(user.get("login", "ghost"))) if isinstance(user, dict) else "ghost"
