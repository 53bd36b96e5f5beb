"""Whatever is asked within the OpenAPI document or beside it, the server has an answer that is no 5xx."""

from __future__ import annotations

from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case
from schemathesis.core.result import Ok

from tests.api.conftest import served

EXAMPLES = 20


def test_no_request_is_answered_with_a_server_error(tmp_path: Path) -> None:
    with served(tmp_path, rate_per_s=100_000, rate_burst=100_000, max_queue=1) as url:
        schema = schemathesis.openapi.from_url(f"{url}/v1/openapi.json")
        operations = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
        assert len(operations) >= 20
        for operation in operations:
            bombard(operation)


def bombard(operation: object) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())  # type: ignore[attr-defined]
    def ask(case: Case) -> None:
        answer = case.call(timeout=30)
        assert answer.status_code < 500 or answer.status_code == 503, answer.text
        assert "Traceback" not in answer.text
        if answer.status_code >= 400:
            assert answer.headers["content-type"][0].startswith("application/problem+json")

    ask()
