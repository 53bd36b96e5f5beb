"""Whatever the workflow: its record names an owner for every changed line, and every invariant holds."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from agentforge.orchestrator.responsibility.check import Stored, check
from agentforge.orchestrator.responsibility.record import audit_record
from agentforge.orchestrator.workflow_load import shipped_workflows
from tests.orchestrator.responsibility.test_random_runs import BASE, RandomModel, loaded, run_with


def asks_only_a_model(name: str) -> bool:
    """Those that also search need containers; they are run elsewhere."""
    workflow = loaded(name)
    return not workflow.stages and "search" not in workflow.node_names


@pytest.mark.parametrize("name", [name for name in shipped_workflows() if asks_only_a_model(name)])
def test_the_record_of_every_workflow_can_be_audited(name: str) -> None:
    states, events = asyncio.run(run_with(RandomModel(random.Random(name)), name, 2))
    final = states[-1]
    audit = json.loads(json.dumps(audit_record(final, events, BASE)))
    patch = final.best.candidate.patch.diff if final.best else None
    assert [f for f in check(Stored(audit, tuple(events), patch, BASE)) if not f.holds] == []
    assert all(hunk["responsibility"] and hunk["why"] for hunk in audit["hunks"])
    assert bool(audit["hunks"]) == (final.best is not None)
