"""Runs beside the tests under a user id of its own and passes their report on to its output.

Exactly one connection is accepted, the one made before any code of the repository was loaded; then
the socket is gone. What has been sent cannot be taken back: the tests can neither signal nor trace
this process, and no file holds the report.
"""

from __future__ import annotations

import os
import socket
import sys

WAIT_S = 60.0
CHUNK = 65536


def main(path: str, limit: int) -> int:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o666)  # noqa: PTH101, S103  the tests run under another id
    listener.listen(1)
    listener.settimeout(WAIT_S)
    try:
        connection, _ = listener.accept()
    except socket.timeout:  # noqa: UP041
        return 3
    finally:
        listener.close()
        os.unlink(path)  # noqa: PTH108
    connection.settimeout(None)
    out = sys.stdout.buffer
    while limit > 0:
        chunk = connection.recv(min(CHUNK, limit))
        if not chunk:
            return 0
        out.write(chunk)
        out.flush()
        limit -= len(chunk)
    return 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
