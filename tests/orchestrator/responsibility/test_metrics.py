"""The metrics by hand on three worked examples (AuditCoder, D)."""

from __future__ import annotations

import pytest

from agentforge.core.responsibility import AcceptanceRank, Evidence, Locus, Snapshot, Transaction
from agentforge.orchestrator.responsibility import metrics
from agentforge.orchestrator.responsibility.metrics import Ratio, RepairCase
from tests.orchestrator.responsibility.helpers import construction, graph, inner, leaf, signature, tree

PERMUTATION = tree(
    m="def check_feasibility(N, K):\n    return K * K >= N\n\n\n"
    "def construct_permutation(N, K, is_possible):\n    return []\n\n\n"
    "def solve(N, K):\n    return construct_permutation(N, K, check_feasibility(N, K))\n"
)


def permutation(**second: object):
    """The paper's figure 4: S0 orchestrates, S1 coordinates, its two leaves own the functions."""
    options = {
        "contract": signature("construct_permutation", "N", "K", "is_possible"),
        "provenance": {"N": "task", "is_possible": "S1_1.possible"},
    }
    return graph(
        inner("S0", files=("m.py",), symbols=("solve",), contract=signature("solve", "N", "K")),
        inner("S1", "S0"),
        leaf(
            "S1_1",
            "S1",
            "check_feasibility",
            contract=signature("check_feasibility", "N", "K"),
            provenance={"N": "task", "K": "task"},
        ),
        leaf("S1_2", "S1", "construct_permutation", **(options | second)),
    )


def evidence(node: str, passed: bool = True) -> Evidence:
    return Evidence(node=node, kind="check", passed=passed, text="x")


def with_evidence(built, *nodes: str):
    made = tuple(
        item.model_copy(update={"evidence": (evidence(item.node, item.node != "S1_2"),)})
        if item.node in nodes
        else item
        for item in built.implementations
    )
    return built.model_copy(update={"implementations": made})


def test_example_1_the_permutation_record() -> None:
    """Both leaves have code, contract and sources; one was never checked: DCTC 1/2, with both 2/2.

    Three nodes own code (S0, S1_1, S1_2) and hold the functions they promise: CSCR 3/3.
    """
    half = with_evidence(construction(permutation(), PERMUTATION), "S1_1")
    whole = with_evidence(half, "S1_1", "S1_2")
    assert metrics.dctc(half) == Ratio(1, 2)
    assert metrics.dctc(whole) == Ratio(2, 2)  # a rejection is a validation, too
    assert metrics.cscr(whole) == Ratio(3, 3)
    assert metrics.graph_valid(permutation())
    assert metrics.macro([metrics.dctc(half), metrics.dctc(whole)]) == 0.75
    assert metrics.pooled([metrics.dctc(half), metrics.dctc(whole)]).value == 0.75


@pytest.mark.parametrize(
    ("second", "dctc", "cscr"),
    [
        ({"provenance": {}}, 1, 3),
        ({"contract": signature("construct_permutation", "K", "N", "is_possible")}, 2, 2),
        ({"contract": signature("", *())}, 2, 2),
        ({"symbols": ("elsewhere",)}, 1, 2),
    ],
)
def test_example_1_with_one_field_wrong(second: dict[str, object], dctc: int, cscr: int) -> None:
    options = dict(second)
    symbols = options.pop("symbols", ("construct_permutation",))
    g = permutation(**options)
    nodes = tuple(n.model_copy(update={"symbols": symbols}) if n.id == "S1_2" else n for n in g.nodes)
    g = g.model_copy(update={"nodes": nodes})
    built = with_evidence(construction(g, PERMUTATION), "S1_1", "S1_2")
    assert metrics.dctc(built).hits == dctc
    assert metrics.cscr(built).hits == cscr


def rank(full: bool, external: int, internal: int = 0) -> AcceptanceRank:
    return AcceptanceRank(full=full, external=external, internal=internal, external_clean=1, internal_clean=1)


def transaction(
    number: int, before: AcceptanceRank, after: AcceptanceRank | None, **more: object
) -> Transaction:
    accepted = bool(more.pop("accepted", True))
    same = Snapshot(code="a", snippets="b", results="c")
    values: dict[str, object] = {
        "number": number,
        "round": number,
        "standing": "c0",
        "locus": Locus(
            node="S1",
            kind="branch",
            rule="R3",
            confidence="low",
            region=("S1", "S1_1", "S1_2"),
            frozen=("S0",),
        ),
        "initial_rank": before,
        "candidate_rank": after,
        "accepted": accepted,
        "reason": "",
        "rollback": "NotApplicable" if accepted else "Restored",
        "initial": same,
        "final": same,
    }
    return Transaction(**(values | more))


def test_example_2_the_ship_and_the_current() -> None:
    """APPS 3103: S1 with its two leaves is replanned under the frozen S0: RRS 3/4. Of 6 lines after the
    repair 2 were replaced and 1 added: CCR 3/6. All three checks pass, none was lost: LRS 1/1, Regress 0/1.
    """
    before = b"def count(y, x):\n    total = 0\n    north = y - 1\n    east = x + 1\n    return total\n"
    after = b"def count(y, x):\n    total = 1\n    north = y - 1\n"
    after += b"    west = x - 1\n    east = x + 1\n    return 2\n"
    entry = transaction(1, rank(False, 1), rank(True, 3))
    assert metrics.rrs(entry) == Ratio(3, 4)
    assert metrics.ccr({"m.py": before}, {"m.py": after}) == Ratio(3, 6)
    assert metrics.ccr({"m.py": before}, {"m.py": before}) == Ratio(0, 5)
    assert metrics.regression({"t1"}, {"t1", "t2", "t3"}) == Ratio(0, 1)
    case = RepairCase(localized=True, passes=True, transactions=(entry,))
    assert metrics.loc_cov([case]) == metrics.lrs([case]) == Ratio(1, 1)
    assert metrics.sidc([entry]) == Ratio(1, 1)
    assert metrics.rir([entry]) == Ratio(0, 0)
    assert metrics.rir([entry]).value is None


def test_example_3_decisions_and_rollbacks() -> None:
    """Four transactions: a gain accepted (right), a gain that lost a test accepted (right by the rank, wrong
    by inclusion), no gain rejected and restored (right), a gain rejected and not restored (wrong twice)."""
    other = Snapshot(code="a", snippets="b", results="d")
    entries = [
        transaction(1, rank(False, 2), rank(False, 3)),
        transaction(2, rank(False, 3), rank(False, 4), lost=("t::x",)),
        transaction(3, rank(False, 4), rank(False, 4), accepted=False),
        transaction(4, rank(False, 4), rank(True, 1), accepted=False, final=other),
        transaction(5, rank(False, 4), None, accepted=False),
    ]
    assert metrics.sidc(entries, inclusion=False) == Ratio(3, 4)
    assert metrics.sidc(entries) == Ratio(2, 4)
    assert metrics.rir(entries) == Ratio(2, 3)
    assert metrics.regression({"a", "b", "c", "d"}, {"a", "d", "e"}) == Ratio(2, 4)


def test_the_papers_own_counts() -> None:
    """26 of 60 located, 17 of those repaired; fallbacks are in neither success nor locality."""
    cases = [RepairCase(True, n < 17) for n in range(26)] + [RepairCase(False, True) for _ in range(34)]
    assert metrics.loc_cov(cases) == Ratio(26, 60)
    assert metrics.lrs(cases) == Ratio(17, 26)
    assert round(metrics.lrs(cases).value or 0, 3) == 0.654
