"""Issues from every source; the tracker is a real HTTP server."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.errors import UsageError
from agentforge.core.task import Issue
from agentforge.repo.github import IssueTrackerError, issue_address
from agentforge.repo.issue import read_issue

URL = "https://github.com/octo/calc/issues/7"
Answer = tuple[int, dict[str, str], bytes]


class Tracker:
    """Answers by path (with query); remembers what was asked and with which token."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Callable[[], Answer]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.base = ""

    def json(self, path: str, value: Any, status: int = 200, **headers: str) -> None:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self.answers[path] = (status, named, json.dumps(value).encode())

    def issue(self, **more: Any) -> None:
        issue = {
            "title": "add subtracts",
            "body": "`add(1, 2)` gives -1",
            "user": {"login": "ada"},
            "comments": 0,
        }
        self.json("/repos/octo/calc/issues/7", {**issue, **more})

    def read(self, url: str = URL, **more: Any) -> Issue:
        return read_issue(url, github_api=self.base, **more)

    def refusal(self, **more: Any) -> IssueTrackerError:
        with pytest.raises(IssueTrackerError) as caught:
            self.read(**more)
        assert caught.value.exit_code == 3
        assert "\n" not in str(caught.value)
        return caught.value


@pytest.fixture
def tracker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracker]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    state = Tracker()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append((self.path, self.headers.get("authorization")))
            answer = state.answers.get(self.path, (404, {}, b'{"message": "Not Found"}'))
            status, headers, body = answer() if callable(answer) else answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.base = f"http://127.0.0.1:{server.server_port}"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def test_plain_text_keeps_its_shape() -> None:
    issue = read_issue("# add is wrong\r\n\r\n    add(1, 2)\n\n")
    assert issue == Issue(text="# add is wrong\n\n    add(1, 2)", title="add is wrong", source="text")


def test_text_that_mentions_a_url_is_text() -> None:
    assert read_issue(f"see {URL}").source == "text"


def test_a_file_and_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "issue.md"
    path.write_bytes("\ufeffbug: é\n".encode())
    assert read_issue(f"@{path}") == Issue(text="bug: é", title="bug: é", source=f"file:{path}")
    assert read_issue("-", stdin=io.StringIO("from a pipe\n")) == Issue(
        text="from a pipe", title="from a pipe", source="stdin"
    )


@pytest.mark.parametrize("spec", ["", "  \n\t", "@{tmp}/empty", "-"])
def test_an_empty_issue_is_a_usage_error(spec: str, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"\n \n")
    with pytest.raises(UsageError, match="the issue is empty") as caught:
        read_issue(spec.format(tmp=tmp_path), stdin=io.StringIO(" \n"))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("absent", None, "No such file"),
        (".", None, "is a folder"),
        ("nul", b"text\0more", "is binary"),
        ("latin", b"caf\xe9", "not UTF-8"),
        ("huge", b"x" * (1024 * 1024 + 1), "larger than 1 MB"),
    ],
)
def test_an_unusable_file_is_one_clear_line(tmp_path: Path, name: str, data: bytes | None, said: str) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=said) as caught:
        read_issue(f"@{tmp_path / name}")
    assert "\n" not in str(caught.value)


def test_unusable_standard_input_and_text() -> None:
    with pytest.raises(UsageError, match="no standard input"):
        read_issue("-")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_issue("-", stdin=io.TextIOWrapper(io.BytesIO(b"\xff\xfe\xff"), encoding="utf-8"))
    with pytest.raises(UsageError, match="larger than 1 MB"):
        read_issue("x" * (1024 * 1024 + 1))


def test_a_github_issue_with_all_its_comments(tracker: Tracker) -> None:
    tracker.issue(comments=3, body="first\r\nsecond\0")
    pages = "/repos/octo/calc/issues/7/comments?per_page=100"
    link = f'<{tracker.base}{pages}&page=2>; rel="next", <{tracker.base}{pages}&page=2>; rel="last"'
    tracker.json(
        pages, [{"body": "same here", "user": {"login": "bob"}}, {"body": "hm", "user": None}], link=link
    )
    tracker.json(pages + "&page=2", [{"body": "\ud800 since 1.2", "user": {"login": "ada"}}])
    issue = tracker.read(token="t0ken")
    assert issue.title == "add subtracts"
    assert issue.source == URL
    assert issue.text == (
        "add subtracts\n\nfirst\nsecond\n\nComment by bob:\nsame here\n\nComment by ghost:\nhm\n\n"
        "Comment by ada (reporter):\n? since 1.2"
    )
    assert [path for path, _ in tracker.asked] == ["/repos/octo/calc/issues/7", pages, pages + "&page=2"]
    assert {token for _, token in tracker.asked} == {"Bearer t0ken"}


def test_the_token_is_optional_and_the_body_may_be_missing(tracker: Tracker) -> None:
    tracker.issue(body=None)
    assert tracker.read(f"{URL}/?tab=x#issuecomment-1").text == "add subtracts"
    assert tracker.asked == [("/repos/octo/calc/issues/7", None)]


def test_a_moved_issue_is_followed_inside_the_api_only(tracker: Tracker) -> None:
    tracker.json("/repositories/1/issues/3", {"title": "moved", "body": "here", "user": None, "comments": 1})
    tracker.json("/repositories/1/issues/3/comments?per_page=100", [{"body": "c", "user": {"login": "x"}}])
    tracker.json("/repos/octo/calc/issues/7", {}, 301, location=f"{tracker.base}/repositories/1/issues/3")
    assert tracker.read().text == "moved\n\nhere\n\nComment by x:\nc"
    tracker.json("/repos/octo/calc/issues/7", {}, 301, location="http://127.0.0.2:1/evil")
    assert tracker.refusal(token="t0ken").cause == "bad_answer"
    tracker.json("/repos/octo/calc/issues/7", {}, 302, location=f"{tracker.base}/repos/octo/calc/issues/7")
    assert "too many redirects" in str(tracker.refusal())


def test_a_next_page_elsewhere_does_not_get_the_token(tracker: Tracker) -> None:
    tracker.issue(comments=200)
    pages = "/repos/octo/calc/issues/7/comments?per_page=100"
    tracker.json(pages, [], link='<http://127.0.0.2:1/steal>; rel="next"')
    assert "another server" in str(tracker.refusal(token="t0ken"))


def test_endless_comments_end(tracker: Tracker) -> None:
    tracker.issue(comments=9)
    pages = "/repos/octo/calc/issues/7/comments?per_page=100"
    items = [{"body": "x" * 300_000, "user": {"login": "b"}}] * 2
    tracker.json(pages, items, link=f'<{tracker.base}{pages}>; rel="next"')
    issue = tracker.read()
    assert len(issue.text) < 1_100_000
    assert issue.text.endswith("larger than 1 MB)")
    tracker.json(pages, [], link=f'<{tracker.base}{pages}>; rel="next"')
    assert tracker.read().title == issue.title
    assert len(tracker.asked) < 120


@pytest.mark.parametrize(
    ("status", "headers", "cause", "said"),
    [
        (404, {}, "not_found", "no such issue (if the repository is private, set GITHUB_TOKEN)"),
        (410, {}, "not_found", "no such issue"),
        (401, {}, "unauthorized", "access was refused (401)"),
        (403, {}, "unauthorized", "access was refused (403)"),
        (
            403,
            {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "1900000000"},
            "rate_limit",
            "resets at 2030-03-17 17:46 UTC (set GITHUB_TOKEN)",
        ),
        (429, {"retry_after": "60"}, "rate_limit", "try again in 60 s"),
        (500, {}, "bad_answer", "the API answered 500"),
    ],
)
def test_refusals_have_their_cause(
    tracker: Tracker, status: int, headers: dict[str, str], cause: str, said: str
) -> None:
    tracker.json("/repos/octo/calc/issues/7", {"message": "no"}, status, **headers)
    error = tracker.refusal(token="s3cret")
    assert error.cause == cause
    assert said in str(error)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize("body", [b"<html>login</html>", b"[1]", b'{"no": "title"}', b"\xff\xfe"])
def test_an_answer_that_is_no_issue(tracker: Tracker, body: bytes) -> None:
    tracker.answers["/repos/octo/calc/issues/7"] = (200, {}, body)
    assert tracker.refusal().cause == "bad_answer"


def test_a_silent_or_absent_server(tracker: Tracker) -> None:
    def slow() -> Answer:
        time.sleep(1)
        return 200, {}, b"{}"

    tracker.answers["/repos/octo/calc/issues/7"] = slow
    assert tracker.refusal(timeout_s=0.2).cause == "timeout"
    with pytest.raises(IssueTrackerError, match="cannot be reached") as caught:
        read_issue(URL, github_api="http://127.0.0.1:1")
    assert caught.value.cause == "unreachable"


def test_a_pull_request_is_not_an_issue(tracker: Tracker) -> None:
    tracker.issue(pull_request={"url": "x"})
    assert tracker.refusal().cause == "pull_request"
    with pytest.raises(IssueTrackerError, match="is a pull request, not an issue"):
        read_issue("https://github.com/octo/calc/pull/7")


@pytest.mark.parametrize(
    "url",
    [
        "https://gitlab.com/o/r/issues/1",
        "https://github.com/o/r",
        "https://github.com/o/r/issues",
        "https://github.com/o/r/issues/x",
        "https://github.com.evil.example/o/r/issues/1",
        "https://github.com/o/../issues/1",
        "https://github.com/o/r/issues/1/../../../user",
    ],
)
def test_other_urls_are_refused_before_anything_is_sent(url: str, tracker: Tracker) -> None:
    with pytest.raises(UsageError, match="not a GitHub issue URL"):
        tracker.read(url)
    assert tracker.asked == []


def test_an_enterprise_address_follows_its_api() -> None:
    address = issue_address("https://ghe.example/o/r/issues/5", "https://ghe.example/api/v3")
    assert address.api_path == "/repos/o/r/issues/5"
    assert issue_address("http://www.github.com/o/r/issues/5").number == 5
