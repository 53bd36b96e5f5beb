"""A real smart-HTTP git server: `git http-backend` behind the standard library's HTTP server."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.repo.repositories import ENVIRONMENT


@contextmanager
def serve_git(root: Path, *, status: int | None = None) -> Iterator[str]:
    """The repositories under `root` at a base URL; with `status` every answer is that error."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, body: bytes) -> None:
            if status is not None:
                self.send_error(status)
                return
            parts = urlsplit(self.path)
            environment = {
                **ENVIRONMENT,
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": parts.path,
                "QUERY_STRING": parts.query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("content-type", ""),
                "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
                "REMOTE_ADDR": "127.0.0.1",
            }
            command = ["git", "-c", "safe.directory=*", "http-backend"]
            out = subprocess.run(
                command, env=environment, input=body, capture_output=True, check=False
            ).stdout
            head, _, content = out.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self._body())

        def _body(self) -> bytes:
            if self.headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("content-length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            return body

        def log_message(self, format: str, *args: Any) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
