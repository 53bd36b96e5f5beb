"""A scripted embeddings endpoint on loopback, for tests."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

KEY = "sk-test-abcdefghij0123456789"


class EmbeddingServer:
    """Answers embeddings of three numbers; `status` and `dimension` can be changed, requests are kept.

    A context manager: it answers within the block.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.status, self.dimension, self.drop, self.counts = 200, 3, 0, True
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.requests.append({"path": self.path, "key": self.headers["Authorization"], "body": body})
                data = [
                    {
                        "object": "embedding",
                        "index": n,
                        "embedding": [float(len(text)), 1.0, 2.0][: owner.dimension],
                    }
                    for n, text in enumerate(body["input"])
                ][owner.drop :]
                answer = {
                    "object": "list",
                    "model": body["model"],
                    "data": data[::-1],
                    "usage": owner.usage(body["input"]),
                }
                payload = json.dumps(answer if owner.status == 200 else {"error": {"message": KEY}}).encode()
                self.send_response(owner.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: object) -> None:
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def usage(self, texts: list[str]) -> dict[str, int]:
        """A token a word, where this server counts at all."""
        used = sum(len(text.split()) for text in texts)
        return {"prompt_tokens": used, "total_tokens": used} if self.counts else {}

    def vector(self, text: str) -> list[float]:
        return [float(len(text)), 1.0, 2.0][: self.dimension]

    def __enter__(self) -> EmbeddingServer:
        self._thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.shutdown()
        self._thread.join()
        self.http.server_close()
