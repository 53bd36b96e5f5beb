"""One hierarchy of errors. Each says what happened, to what, and what to do next.

AgentForgeError
├── UsageError              2  bad option, empty issue
│   └── ConfigError         2  malformed or unknown configuration
├── EnvironmentFault        3  something around us is missing or broken
│   ├── RepositoryError     3  missing, not git, unknown revision
│   ├── EngineUnavailable   3  no container engine answers
│   ├── ImageError          3  base or environment image cannot be had
│   ├── SandboxLost         3  the container went away under us
│   └── RecordError         3  a run record is missing or damaged
├── ModelError              4  the model endpoint; see `agentforge.models.errors`
├── LimitReached            5  cost, tokens, calls or time
├── PatchError              1  an answer that cannot be applied, with its category
└── StoreError              -  memory or index; never ends a repair
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """What the process says when it ends (docs/architecture.md, exit codes)."""

    VERIFIED = 0
    NO_VERIFIED_PATCH = 1
    USAGE = 2
    ENVIRONMENT = 3
    MODEL = 4
    LIMIT = 5
    UNVERIFIED = 6
    DEFECT = 70
    INTERRUPTED = 130


class AgentForgeError(Exception):
    """Base of every error we raise on purpose.

    `what` is one line for a person; `hint` names the next thing to do.
    """

    exit_code: ExitCode = ExitCode.NO_VERIFIED_PATCH

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what} ({self.hint})" if self.hint else self.what


class UsageError(AgentForgeError):
    exit_code = ExitCode.USAGE


class ConfigError(UsageError):
    """A configuration or workflow file that cannot be used."""


class EnvironmentFault(AgentForgeError):
    exit_code = ExitCode.ENVIRONMENT


class RepositoryError(EnvironmentFault):
    """The repository, its revision or its worktree cannot be used."""


class EngineUnavailable(EnvironmentFault):
    """No container engine answers."""


class ImageError(EnvironmentFault):
    """The base or environment image cannot be found or built."""


class SandboxLost(EnvironmentFault):
    """The container disappeared or the engine went away in mid-run."""


class RecordError(EnvironmentFault):
    """A run record is missing, damaged, or does not match what is replayed."""


class ModelError(AgentForgeError):
    """The model endpoint refused, failed or answered unusably."""

    exit_code = ExitCode.MODEL


class LimitReached(AgentForgeError):
    """A limit on cost, tokens, calls or time would be, or was, crossed."""

    exit_code = ExitCode.LIMIT

    def __init__(self, limit: str, what: str, *, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.limit = limit


class StoreError(AgentForgeError):
    """Memory or index cannot be used. Callers degrade; a repair never fails on it."""

    exit_code = ExitCode.ENVIRONMENT


class RefusalReason(StrEnum):
    """Why the patch engine refused an answer (docs/patch-engine.md)."""

    NO_MATCH = "no_match"
    ALREADY_APPLIED = "already_applied"
    AMBIGUOUS = "ambiguous"
    PATH_ESCAPE = "path_escape"
    GIT_INTERNAL = "git_internal"
    BINARY = "binary"
    TYPE_CHANGE = "type_change"
    MALFORMED = "malformed"
    TRUNCATED = "truncated"
    PARTIAL = "partial"


class PatchError(AgentForgeError):
    """An answer was refused whole; the tree is as it was.

    `path` is the file it stumbled over ("" when none), `closest` the real lines nearest to
    what the answer quoted, with line numbers, so that a model can mend its answer.
    """

    def __init__(self, reason: RefusalReason, what: str, *, path: str = "", closest: str = "") -> None:
        super().__init__(what)
        self.reason = reason
        self.path = path
        self.closest = closest
