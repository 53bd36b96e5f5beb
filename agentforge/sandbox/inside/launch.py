"""Starts pytest with our reporter in place before any code of the repository is loaded.

Run as `python -S launch.py SOCKET REQUEST`: without `site`, no path file, sitecustomize or
conftest has run when the connection to the collector is made.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
import time
from typing import Any

CONNECT_S = 20.0
FAULT = 97


def connect(path: str) -> socket.socket:
    """The collector starts at the same moment as we do: try until it listens."""
    deadline = time.monotonic() + CONNECT_S
    while True:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.connect(path)
        except OSError:
            channel.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return channel


def load(path: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def quiet_plugins() -> list[str]:
    """Arguments that keep installed plugins from spreading, repeating or shuffling the tests."""
    wanted = {
        "xdist": ["-n0"],
        "pytest_cov": ["--no-cov"],
        "pytest_randomly": ["-p", "no:randomly"],
        "pytest_random_order": ["-p", "no:random_order"],
        "pytest_rerunfailures": ["-p", "no:rerunfailures"],
    }
    found = [arguments for module, arguments in wanted.items() if importlib.util.find_spec(module)]
    return [argument for arguments in found for argument in arguments]


def main(socket_path: str, request_path: str) -> int:
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]  # noqa: PTH100
    channel = connect(socket_path)
    with open(request_path, encoding="utf-8") as stream:
        request = json.load(stream)

    def send(event: dict[str, Any]) -> None:
        channel.sendall(json.dumps(event).encode("ascii") + b"\n")

    import site

    site.main()
    try:
        import pytest
    except ImportError as error:
        send({"kind": "fault", "what": f"pytest cannot be imported: {error}"})
        sys.stderr.write(f"pytest cannot be imported: {error}\n")
        return FAULT
    report = load(os.path.join(here, "report_plugin.py"), "agentforge_report")  # noqa: PTH118
    # As `python -m pytest` does; a src folder comes last, for trees that were never installed.
    sys.path.insert(0, os.getcwd())  # noqa: PTH109
    sys.path.extend(path for path in request["paths"] if path not in sys.path)
    arguments = [*request["arguments"], *quiet_plugins(), *request["targets"]]
    sys.argv = [pytest.__file__, *arguments]
    reporter = report.Reporter(send, request)
    code = int(pytest.main(arguments, plugins=[reporter]))
    reporter.end(code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
