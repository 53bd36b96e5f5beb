"""Who is let in, and with what: tokens, tickets, Host, Origin, sizes, rates, repositories."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from agentforge.api.app import create_app
from agentforge.api.problems import ApiError
from agentforge.api.sources import check_repository, checked_repository
from agentforge.api.tokens import TICKET_S, Tickets, Tokens, add_token
from agentforge.config.load import load_settings
from agentforge.config.settings import ServerSettings
from agentforge.core.errors import ConfigError
from agentforge.repo.remote import _pinned
from tests.api.test_cancelling import Patient
from tests.api.test_edges import begin

Serve = Callable[..., str]


def test_only_loopback_is_served_without_a_token(tmp_path: Path) -> None:
    settings = load_settings(None, {"server.host": "0.0.0.0"}, {"AGENTFORGE_DATA_HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="no token is set"):
        create_app(settings.settings)


def test_tokens_are_kept_as_hashes_and_let_in_only_whom_they_name(tmp_path: Path, serve: Serve) -> None:
    file = tmp_path / "tokens"
    token = add_token(file, "alice")
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    url = serve(token_file=str(file))
    assert httpx.get(f"{url}/healthz").status_code == 200
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {token}"}):
        refused = httpx.get(f"{url}/v1/runs", headers=headers)
        assert refused.status_code == 401
        assert refused.headers["content-type"] == "application/problem+json"
    good = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{url}/v1/runs", headers=good).status_code == 200
    # A ticket opens streams, and nothing else.
    ticket = httpx.post(f"{url}/v1/tickets", headers=good).json()["ticket"]
    assert httpx.get(f"{url}/v1/runs/none/events?ticket={ticket}").status_code == 404
    assert httpx.get(f"{url}/v1/runs?ticket={ticket}").status_code == 401
    assert httpx.get(f"{url}/v1/runs/none/events?ticket=wrong").status_code == 401


def test_a_ticket_opens_one_stream_and_ends() -> None:
    now = [0.0]
    tickets = Tickets(lambda: now[0])
    ticket, late = tickets.issue("alice"), tickets.issue("alice")
    assert [tickets.take(ticket), tickets.take(ticket)] == ["alice", None]
    now[0] = TICKET_S + 1
    assert tickets.take(late) is None


def test_a_token_file_without_a_token_is_no_open_door(tmp_path: Path) -> None:
    for name, text in (("missing", None), ("empty", "# nobody yet\n")):
        file = tmp_path / name
        if text is not None:
            file.write_text(text)
        environment = {"AGENTFORGE_DATA_HOME": str(tmp_path)}
        settings = load_settings(None, {"server.token_file": str(file)}, environment)
        with pytest.raises(ConfigError, match="holds no token"):
            create_app(settings.settings)


def test_a_name_has_one_token_and_a_missing_newline_costs_none(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    first = add_token(file, "alice")
    file.write_text(file.read_text().rstrip("\n"))
    second = add_token(file, "bob")
    tokens = Tokens.read(file)
    assert (tokens.holder(first), tokens.holder(second)) == ("alice", "bob")
    with pytest.raises(ConfigError, match="a token of alice already"):
        add_token(file, "alice")


def test_a_token_file_that_is_no_such_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("alice plaintext-token\n")
    with pytest.raises(ConfigError, match="tokens:1: not a name and a hash"):
        Tokens.read(file)
    with pytest.raises(ConfigError, match="cannot name a token"):
        add_token(file, "a b")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[x"}, 403),
        ({"Origin": "file:"}, 403),
        ({"Host": "[::1"}, 421),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403),
    ],
)
def test_other_sites_and_rebound_names_are_refused(
    serve: Serve, headers: dict[str, str], status: int
) -> None:
    assert httpx.get(f"{serve()}/v1/runs", headers=headers).status_code == status


def test_a_listed_site_may_ask_with_a_token_and_others_not(tmp_path: Path, serve: Serve) -> None:
    """A browser sends no token with the question whether it may."""
    file = tmp_path / "tokens"
    token = add_token(file, "alice")
    url = serve(token_file=str(file), cors_origins=("https://ours.example",))
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for origin, status in (("https://ours.example", 200), ("https://evil.example", 403)):
        answer = httpx.options(f"{url}/v1/runs", headers={"Origin": origin, **asked})
        assert answer.status_code == status
    good = {"Origin": "https://ours.example", "Authorization": f"Bearer {token}"}
    answer = httpx.get(f"{url}/v1/runs", headers=good)
    assert answer.headers["access-control-allow-origin"] == "https://ours.example"
    assert httpx.get(f"{url}/v1/runs", headers={"Origin": "https://ours.example"}).status_code == 401


def test_who_sends_drop_by_drop_or_opens_too_much_is_let_go(tmp_path: Path, serve: Serve) -> None:
    runner = Patient()
    url = serve(
        runner, request_timeout_s=0.4, max_connections=20, heartbeat_s=1, repository_roots=(str(tmp_path),)
    )
    host, port = url.removeprefix("http://").split(":")
    head = f"POST /v1/runs HTTP/1.1\r\nHost: {host}:{port}\r\n".encode()
    unfinished = (b"", b"GET /healthz HTT", head, head + b"Content-Length: 50\r\n\r\n{")
    for sent in unfinished:
        with socket.create_connection((host, int(port)), timeout=5) as slow:
            slow.sendall(sent)
            try:
                said = slow.recv(1000)
            except ConnectionResetError:
                said = b""
        assert said == b"" or said.startswith(b"HTTP/1.1 408"), sent
    # A stream that was asked for properly is not cut off by that, however long it is.
    run = begin(url, tmp_path)
    with httpx.stream("GET", f"{url}/v1/runs/{run}/events", timeout=10) as stream:
        pings = (line for line in stream.iter_lines() if line.startswith(": ping"))
        assert next(pings) < next(pings)
    httpx.post(f"{url}/v1/runs/{run}/cancel")
    many = [socket.create_connection((host, int(port)), timeout=5) for _ in range(40)]
    time.sleep(0.2)
    closed = sum(_closed(one) for one in many)
    for one in many:
        one.close()
    assert closed >= 15
    time.sleep(0.6)
    assert httpx.get(f"{url}/healthz").status_code == 200


def _closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_a_refused_websocket_gets_the_answer_of_any_request(tmp_path: Path, serve: Serve) -> None:
    file = tmp_path / "tokens"
    token = add_token(file, "alice")
    url = serve(token_file=str(file))
    address = f"{url.replace('http', 'ws')}/v1/runs/none/ws"
    ticket = httpx.post(f"{url}/v1/tickets", headers={"Authorization": f"Bearer {token}"}).json()["ticket"]
    cases: list[tuple[str, dict[str, str], int]] = [
        ("", {}, 401),
        ("", {"Origin": "https://evil.example"}, 403),
        (f"?ticket={ticket}", {}, 404),  # let in, but there is no such run
        (f"?ticket={ticket}", {}, 401),  # used
    ]
    for query, headers, status in cases:
        with pytest.raises(InvalidStatus) as refused, connect(address + query, additional_headers=headers):
            pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"{}")["status"] == status


def test_no_other_site_is_allowed_by_a_header(serve: Serve) -> None:
    answer = httpx.get(f"{serve()}/v1/runs")
    assert "access-control-allow-origin" not in answer.headers
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_oversized_body_is_refused_with_or_without_its_length(serve: Serve) -> None:
    url = serve(max_body_kb=8)
    body = b'{"repository": "' + b"x" * 20_000 + b'"}'
    headers = {"Content-Type": "application/json"}
    assert httpx.post(f"{url}/v1/runs", content=body, headers=headers).status_code == 413

    def chunks() -> Any:
        yield from (body[i : i + 1000] for i in range(0, len(body), 1000))

    assert httpx.post(f"{url}/v1/runs", content=chunks(), headers=headers).status_code == 413


@pytest.mark.parametrize(
    "run_id", ["..", "%2e%2e%2f%2e%2e", "..%2f..%2fetc%2fpasswd", "a%00b", "x" * 500, "%0d%0aSet-Cookie:a"]
)
@pytest.mark.parametrize("part", ["", "/patch", "/report", "/logs/..%2frun.json", "/events", "/calls"])
def test_no_path_leads_out_of_the_records(serve_once: str, run_id: str, part: str) -> None:
    answer = httpx.get(f"{serve_once}/v1/runs/{run_id}{part}")
    assert answer.status_code in (404, 405)
    assert "set-cookie" not in answer.headers
    assert b"Traceback" not in answer.content


@pytest.fixture(scope="module")
def serve_once(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.api.conftest import served

    with served(tmp_path_factory.mktemp("guard"), rate_per_s=10_000, rate_burst=10_000) as url:
        yield url


@pytest.mark.parametrize(
    "source",
    [
        "/etc",
        "relative/path",
        "~/code",
        "-oProxyCommand=x",
        "file:///srv/code",
        "ssh://github.com/a/b",
        "git@github.com:a/b",
        "http://github.com/a/b",
        "https://user:pw@github.com/a/b",
        "https://github.com/a/b?x=1",
        "https://github.com/a\nb",
        "https://169.254.169.254/latest",
        "https://[::1]/a/b",
        "https://localhost/a",
        "https://evil.example/a/b",
        "ext::sh -c id",
        "https://github.com.evil.example/a",
        "https://github.com@evil.example/a",
    ],
)
def test_repositories_that_would_let_a_visitor_reach_inside_are_refused(source: str) -> None:
    settings = ServerSettings(repository_roots=("/srv",))
    with pytest.raises(ApiError) as refused:
        check_repository(source, settings, lambda host, port: ["93.184.216.34"])
    assert refused.value.status == 403


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1"])
def test_a_listed_name_with_an_inner_address_is_refused(address: str) -> None:
    with pytest.raises(ApiError, match="not public"):
        check_repository("https://github.com/a/b", ServerSettings(), lambda host, port: [address])


def test_a_link_out_of_the_roots_is_followed_before_it_is_judged(tmp_path: Path) -> None:
    root, inside = tmp_path / "root", tmp_path / "root" / "inside"
    inside.mkdir(parents=True)
    (root / "out").symlink_to("/etc")
    settings = ServerSettings(repository_roots=(str(root),))
    assert check_repository(str(inside), settings) == str(inside)
    (root / "loop").symlink_to(root / "loop")
    for name in ("out", "loop"):
        with pytest.raises(ApiError):
            check_repository(str(root / name), settings)


def test_what_was_judged_is_what_is_fetched() -> None:
    """A name looked up again may answer with an inner address (DNS rebinding), and a redirect lead there."""
    answers = iter([["93.184.216.34", "2606:2800::1"]])
    checked = checked_repository("https://github.com/a/b", ServerSettings(), lambda h, p: next(answers))
    assert _pinned(checked.source, checked.addresses) == (
        "http.curloptResolve=github.com:443:93.184.216.34,[2606:2800::1]",
        "http.followRedirects=false",
    )
    assert _pinned(checked.source, ()) == ()


def test_a_flood_of_bad_requests_is_turned_away_and_the_server_goes_on(serve: Serve) -> None:
    url = serve(rate_per_s=20, rate_burst=20)
    host, port = url.removeprefix("http://").split(":")
    seen: list[int] = []

    def flood() -> None:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            with socket.create_connection((host, int(port)), timeout=5) as raw:
                raw.sendall(
                    b"GET /v1/runs/%ff%00 HTTP/1.1\r\nHost: " + f"{host}:{port}".encode() + b"\r\n\r\n"
                )
                seen.append(int(raw.recv(100).split(b" ")[1]))

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 429 in seen
    assert max(seen) < 500
    time.sleep(1.1)
    assert httpx.get(f"{url}/healthz").status_code == 200
