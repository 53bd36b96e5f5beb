"""The metrics of one run (AuditCoder, D and E), each with its numerator and denominator."""

from __future__ import annotations

from typing import Any

from agentforge.core.responsibility import Construction
from agentforge.core.state import RunState
from agentforge.orchestrator.responsibility import metrics
from agentforge.orchestrator.responsibility.metrics import Ratio, RepairCase


def metrics_of(state: RunState, final: Construction) -> dict[str, Any]:
    """A run is one task: LocCov and LRS have a denominator of 1 where it entered repair, else of 0."""
    history = state.history
    entered = bool(history or state.fallbacks)
    localized = bool(history)
    cases = [RepairCase(localized, state.verified and not state.fallbacks, history)] if entered else []
    graph = state.responsibilities
    return {
        "dctc_initial": _shown(metrics.dctc(state.construction)) if state.construction else None,
        "dctc": _shown(metrics.dctc(final)),
        "graph_valid": metrics.graph_valid(graph if graph is not None else final.graph),
        "cscr": _shown(metrics.cscr(final)),
        "loc_cov": _shown(metrics.loc_cov(cases)),
        "lrs": _shown(metrics.lrs(cases)),
        "rrs": [_shown(metrics.rrs(entry)) for entry in history],
        "ccr": [_shown(Ratio(entry.changed_lines, entry.lines)) for entry in history],
        "regression": _shown(
            metrics.pooled(Ratio(len(e.lost) if e.accepted else 0, e.passed_before) for e in history)
        ),
        "regression_of_candidates": _shown(
            metrics.pooled(Ratio(len(e.lost), e.passed_before) for e in history)
        ),
        "sidc": _shown(metrics.sidc(history)),
        "sidc_rank_alone": _shown(metrics.sidc(history, inclusion=False)),
        "rir": _shown(metrics.rir(history)),
        "fallbacks": len(state.fallbacks),
    }


def _shown(ratio: Ratio) -> dict[str, Any]:
    return {"hits": ratio.hits, "total": ratio.total, "value": ratio.value}
