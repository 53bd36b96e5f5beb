"""The connection to the container engine, and its errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentforge.core.errors import EngineUnavailable, EnvironmentFault, ImageError, SandboxLost

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.errors import APIError

API_TIMEOUT_S = 120
_GONE = (
    "not running",
    "stopped container",
    "OCI runtime exec failed",
    "no such process",
    "container not found",
    "container state improper",  # Podman
)
_NO_ENGINE_HINT = (
    "start Docker (for example `sudo systemctl start docker`), or run scripts/setup.sh; "
    "`agentforge sandbox doctor` tells more"
)


def connect(timeout_s: float = API_TIMEOUT_S) -> DockerClient:
    """A client of the engine that DOCKER_HOST (or the default socket) names, known to answer.

    Raises `EngineUnavailable`.
    """
    import docker
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    client = None
    try:
        client = docker.from_env(timeout=int(timeout_s), max_pool_size=32)
        client.ping()
    except (DockerException, RequestException, OSError) as error:
        if client is not None:
            client.close()
        raise EngineUnavailable(
            f"no container engine answers: {_short(error)}", hint=_NO_ENGINE_HINT
        ) from error
    return client


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn what docker-py raises while `doing` something into our errors.

    A missing container or a dead engine is `SandboxLost`, a missing image `ImageError`, a full
    disk or a refused request `EnvironmentFault`.
    """
    from docker.errors import APIError, DockerException, ImageNotFound, NotFound
    from requests.exceptions import RequestException

    try:
        yield
    except ImageNotFound as error:
        raise ImageError(
            f"{doing}: {_short(error)}", hint="`agentforge sandbox build` makes the base image"
        ) from error
    except NotFound as error:
        raise SandboxLost(f"{doing}: the container is gone: {_short(error)}") from error
    except APIError as error:
        raise _refused(doing, error) from error
    except (DockerException, RequestException, OSError) as error:
        raise SandboxLost(
            f"{doing}: the engine does not answer: {_short(error)}", hint=_NO_ENGINE_HINT
        ) from error


def _refused(doing: str, error: APIError) -> EnvironmentFault:
    text = _short(error)
    if "no space left" in text.lower():
        return EnvironmentFault(
            f"{doing}: the engine's disk is full", hint="`agentforge sandbox prune` frees what we hold"
        )
    # 409 is "not running" or "marked for removal"; the rest is how runtimes say the same.
    gone = error.status_code == 409 or any(sign in text for sign in _GONE)
    if gone:
        return SandboxLost(f"{doing}: the container is not running any more: {text}")
    return EnvironmentFault(f"{doing}: the engine refused: {text}", hint="see `agentforge sandbox doctor`")


def _short(error: BaseException) -> str:
    explanation = getattr(error, "explanation", None)
    text = (
        explanation.decode("utf-8", "replace")
        if isinstance(explanation, bytes)
        else str(explanation or error)
    )
    return " ".join(text.split())[:400]
