"""The one base class of our nouns: frozen, closed, bytes as base64 in JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable value; unknown fields are an error; bytes travel as base64 in JSON."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64", protected_namespaces=()
    )
