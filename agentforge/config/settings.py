"""Every setting, its meaning and default. Loading and layering: `agentforge.config.load`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from agentforge.core.task import Limits

AgentName = Literal[
    "planner",
    "coder",
    "tester",
    "debugger",
    "critic",
    "explainer",
    "distiller",
    "specialist",
    "manager",
    "reviewer",
    "optimizer",
    "fixer",
    "reacter",
]
EditFormat = Literal["auto", "diff", "search_replace", "symbol"]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Price(Section):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)


class ModelSettings(Section):
    """The model endpoint. With neither `base_url` nor `api_key` no model is used (workflow `search`)."""

    base_url: str | None = None
    api_key: SecretStr | None = None
    name: str = "gpt-4o-2024-08-06"
    temperature: float = Field(default=0.0, ge=0, le=2)
    seed: int | None = 42
    max_output_tokens: int = Field(default=4096, gt=0)
    context_tokens: int = Field(default=128_000, gt=0)
    timeout_s: float = Field(default=300.0, gt=0)
    """Seconds without a single byte before a stream counts as broken."""
    max_retries: int = Field(default=5, ge=0)
    edit_format: EditFormat = "auto"
    prices: dict[str, Price] = {}

    @property
    def configured(self) -> bool:
        return self.base_url is not None or self.api_key is not None


class AgentSettings(Section):
    """Overrides for one agent; None takes the value of `model`."""

    model: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    seed: int | None = None
    max_output_tokens: int | None = Field(default=None, gt=0)


class SandboxSettings(Section):
    """Limits of every container (AgentForge, III-E). Sizes in MB, times in seconds."""

    base_image: str = "agentforge-base:1"
    runtime: str | None = None
    """OCI runtime (`runc`, `crun`, `runsc`) as the engine knows it; None takes the engine's default."""
    pool: int = Field(default=2, ge=0)
    """Containers made ahead, each for one verification; 0 makes none."""
    memory_mb: int = Field(default=512, ge=64)
    cpus: float = Field(default=0.5, gt=0)
    pids: int = Field(default=64, ge=16)
    workspace_mb: int = Field(default=256, ge=16)
    """Room for what a run writes beside the tree; held in memory and charged to `memory_mb`."""
    tmp_mb: int = Field(default=128, ge=1)
    timeout_s: float = Field(default=30.0, gt=0)
    """In-container limit of one test command."""
    test_timeout_s: float = Field(default=10.0, gt=0)
    """Limit of one test; a test that passes it is failed, and the others go on."""
    suite_timeout_s: float = Field(default=300.0, gt=0)
    """Limit of a whole-suite run before a patch is called verified."""
    output_kb: int = Field(default=64, ge=1)
    """How much output is kept for people, head and tail together."""
    log_mb: int = Field(default=8, ge=1)
    """How much of the full log is kept in the run directory."""
    build_timeout_s: float = Field(default=900.0, gt=0)
    build_memory_mb: int = Field(default=2048, ge=256)


class MemorySettings(Section):
    """Episodes and the symbol index (AgentForge, III-C)."""

    enabled: bool = True
    k: int = Field(default=5, ge=0)
    history: int = Field(default=3000, ge=0)
    """How many past commits the ranking of files may read; 0 reads none."""
    learn: bool = True
    """Remember verified fixes; false only reads."""
    distil: bool = True
    """Ask the model, where there is one, what at least three similar fixes have in common."""
    embedding_base_url: str | None = None
    """An OpenAI-compatible endpoint for vectors; without one they are made offline, with no model."""
    embedding_api_key: SecretStr | None = None
    embedding_model: str = "text-embedding-3-small"
    embedding_dimension: int = Field(default=1536, gt=0)
    chroma_url: str | None = None
    """A Chroma server that keeps the episodes instead of a folder of `data_home`."""


class SearchSettings(Section):
    """The engine that needs no model."""

    time_limit_s: float = Field(default=180.0, gt=0)
    max_candidates: int = Field(default=20000, gt=0)
    batch_size: int = Field(default=200, gt=0)
    max_lines: int = Field(default=200, gt=0)
    """How many suspicious lines are edited."""


def _words(value: object) -> object:
    """A list may be written as one text with spaces between, as an environment variable must be."""
    return tuple(value.split()) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class ServerSettings(Section):
    """`agentforge serve`. Whoever may reach the server can start runs, so everything is closed at first."""

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    workers: int = Field(default=2, ge=1)
    """Runs at the same time; the others wait."""
    max_queue: int = Field(default=100, ge=1)
    token_file: Path | None = None
    """Names and hashes of tokens; needed on any address but loopback."""
    allowed_hosts: Words = ()
    cors_origins: Words = ()
    repository_roots: Words = ()
    repository_hosts: Words = ("github.com",)
    allow_private_hosts: bool = False
    results_dir: Path | None = None
    """Folder of evaluation results to be shown."""
    max_body_kb: int = Field(default=1024, ge=1)
    rate_per_s: float = Field(default=50.0, gt=0)
    """Requests a second that one visitor may make in the long run."""
    rate_burst: int = Field(default=200, ge=1)
    request_timeout_s: float = Field(default=20.0, gt=0)
    """A request that is not there as a whole after so long is dropped."""
    max_connections: int = Field(default=2000, ge=1)
    """Open connections, streams among them; further ones are closed at once."""
    heartbeat_s: float = Field(default=15.0, gt=0)
    send_timeout_s: float = Field(default=20.0, gt=0)
    """A reader that takes nothing for so long is dropped; it can come back."""
    stream_buffer_mb: int = Field(default=16, ge=1)
    """Events of one run that are kept at hand for its readers."""
    max_streams: int = Field(default=1000, ge=1)
    max_retries: int = Field(default=10, ge=0)
    limits: Limits = Limits()
    """No run may ask for more than these."""


class Settings(Section):
    """The resolved configuration of one process."""

    data_home: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("agentforge")))
    workflow: str = "auto"
    """`auto`: `agentforge` with a model, `search` without."""
    retries: int = Field(default=3, ge=0)
    """Debugger rounds: N regenerations, N + 1 executions (AgentForge, III-D)."""
    parallel_steps: int = Field(default=4, ge=1)
    """Most steps of a plan that are coded at once, where they are independent; 1 takes them in turn."""
    critic: Literal["advisory", "gate", "off"] = "advisory"
    tests_scope: Literal["related", "all"] = "all"
    github_api: str = "https://api.github.com"
    github_token: SecretStr | None = None
    model: ModelSettings = ModelSettings()
    agents: dict[AgentName, AgentSettings] = {}
    sandbox: SandboxSettings = SandboxSettings()
    memory: MemorySettings = MemorySettings()
    search: SearchSettings = SearchSettings()
    server: ServerSettings = ServerSettings()
    limits: Limits = Limits()
