"""Events and results in words. Everything here is plain text from others: neutralise before showing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from agentforge.core import events
from agentforge.core.chat import Spend
from agentforge.core.gate import GateDecision, GateReason, Verdict
from agentforge.core.report import Cause, Outcome, TestReport

SHOWN_IDS = 5
"""How many names are listed before "and N more"."""


class Line(NamedTuple):
    """One line of progress: who speaks, what is said, and a rich style."""

    who: str
    text: str
    style: str = ""
    detail: bool = False
    """Shown with --verbose only."""


def describe(event: Any) -> list[Line]:
    """What an event says to a person; nothing for tokens and the end, which the view shows itself."""
    speak = _SPEAKERS.get(type(event))
    return list(speak(event)) if speak else []


def counts(report: TestReport) -> str:
    """`12 passed, 1 failed`, and the cause where the run did not end well."""
    tally = Counter(report.outcomes.values())
    parts = [f"{tally[outcome]} {outcome.value}" for outcome in Outcome if tally[outcome]]
    said = ", ".join(parts) or "no tests"
    if report.cause is not Cause.OK:
        said += f" ({report.cause.value.replace('_', ' ')}{_detail(report.cause_detail)})"
    return said


def money(spend: Spend) -> str:
    """`$0.0123`, and what had no known price."""
    if spend.calls == 0:
        return "no model calls"
    if spend.unpriced_calls >= spend.calls:
        return "price unknown"
    text = f"${spend.cost_usd:.4f}"
    if spend.unpriced_calls:
        text += f" and {plural(spend.unpriced_calls, 'call')} of unknown price"
    return text


def spent(spend: Spend) -> str:
    """Cost, calls and tokens of a run so far."""
    if spend.calls == 0:
        return money(spend)
    tokens = spend.prompt_tokens + spend.completion_tokens
    return f"{money(spend)} · {plural(spend.calls, 'call')} · {tokens:,} tokens"


def seconds(duration: float) -> str:
    if duration < 60:
        return f"{duration:.1f} s"
    minutes, rest = divmod(round(duration), 60)
    return f"{minutes} min {rest:02d} s"


def reason_text(reason: GateReason) -> str:
    """One reason of the gate, with its test where there is one."""
    said = reason.text or reason.kind.value.replace("_", " ")
    return f"{reason.test_id}: {said}" if reason.test_id else said


def verdict_text(decision: GateDecision) -> str:
    flipped, kept = len(decision.fail_to_pass), len(decision.pass_to_pass)
    if decision.verdict is Verdict.VERIFIED:
        return f"verified: {plural(flipped, 'test')} went from failing to passing, {kept} still pass"
    if decision.verdict is Verdict.UNVERIFIED:
        return f"unverified: nothing broke ({kept} still pass), but nothing proves the bug is gone"
    return "refused"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(names: Iterable[str], limit: int = SHOWN_IDS) -> str:
    all_names = list(names)
    more = len(all_names) - limit
    return ", ".join(all_names[:limit]) + (f" and {more} more" if more > 0 else "")


# --- one speaker per kind of event ------------------------------------------------------------------------


def _run_started(event: events.RunStarted) -> Iterator[Line]:
    yield Line("run", f"{event.run_id}: {event.issue_title or 'issue without a title'}", "bold")
    yield Line("run", f"{event.repository} at {event.base[:12]}, workflow {event.workflow}")
    models = sorted(set(event.models.values()))
    if models:
        yield Line("run", f"{plural(len(models), 'model')}: {listed(models)}")


def _run_resumed(event: events.RunResumed) -> Iterator[Line]:
    yield Line("run", f"goes on after step {event.after} of its record; no answered call is made again")


def _node_started(event: events.NodeStarted) -> Iterator[Line]:
    yield Line(event.node, f"starts (round {event.round})", "dim", detail=True)


def _node_finished(event: events.NodeFinished) -> Iterator[Line]:
    yield Line(event.node, f"done: {listed(event.writes) or 'nothing new'}", "dim", detail=True)


def _call_started(event: events.ModelCallStarted) -> Iterator[Line]:
    step = f", step {event.step}" if event.step else ""
    yield Line(event.agent, f"asks {event.model} (call {event.call}{step})", "dim")


def _call_finished(event: events.ModelCallFinished) -> Iterator[Line]:
    tokens = event.usage.completion_tokens
    length = "an unknown number of tokens" if tokens is None else plural(tokens, "token")
    price = "price unknown" if event.cost_usd is None else f"${event.cost_usd:.4f}"
    ended = "" if event.finish_reason == "stop" else f", ended by {event.finish_reason}"
    yield Line(event.agent, f"answered: {length}, {price}{ended}", "dim")


def _stream_reset(event: events.StreamReset) -> Iterator[Line]:
    yield Line(event.agent, f"the answer broke off and starts over: {event.reason}", "yellow")


def _retrieved(event: events.ContextRetrieved) -> Iterator[Line]:
    places = listed(f"{path}:{start} {name}" for path, name, start, _ in event.symbols)
    if places:
        yield Line("memory", f"{plural(len(event.symbols), 'symbol')}: {places}")
    if event.episodes:
        yield Line("memory", f"{plural(len(event.episodes), 'similar episode')}: {listed(event.episodes)}")
    if event.insights:
        yield Line("memory", f"{plural(len(event.insights), 'lesson')}: {listed(event.insights)}")


def _plan(event: events.PlanMade) -> Iterator[Line]:
    label = "plain fallback plan" if event.plan.fallback else "plan"
    yield Line("planner", f"{label}: {event.plan.explanation}")
    for step in event.plan.steps:
        where = f" [{listed(step.files)}]" if step.files else ""
        yield Line("planner", f"  {step.id} {step.agent}: {step.description}{where}")


def _committed(event: events.ResponsibilitiesCommitted) -> Iterator[Line]:
    label = "one responsibility for all" if event.graph.fallback else "responsibilities"
    yield Line("planner", f"{label}: {event.graph.explanation}")
    for node in event.graph.nodes:
        owns = f" [{listed(node.symbols or node.files)}]" if node.owns_code and node.files else ""
        yield Line("planner", f"  {node.id}: {node.goal}{owns}")


def _node_verified(event: events.NodeVerified) -> Iterator[Line]:
    bad = [entry for entry in event.evidence if not entry.passed]
    said = f"{len(event.evidence) - len(bad)} of {plural(len(event.evidence), 'local check')} hold"
    yield Line(event.responsibility, f"{said}; owns {listed(event.units) or 'no code'}")
    for entry in bad[:SHOWN_IDS]:
        yield Line(event.responsibility, f"  rejected: {entry.text}", "yellow")


def _localized(event: events.Localized) -> Iterator[Line]:
    locus = event.locus
    why = listed(locus.evidence, 2)
    if locus.abstains:
        yield Line("locator", f"abstains: {why}", "yellow")
    else:
        frozen = f"; frozen: {listed(locus.frozen)}" if locus.frozen else ""
        yield Line("locator", f"{locus.kind} {locus.node} by {locus.rule} ({locus.confidence}): {why}")
        yield Line("locator", f"  may change: {listed(locus.region)}{frozen}")


def _transaction(event: events.TransactionClosed) -> Iterator[Line]:
    entry = event.transaction
    said = "accepted" if entry.accepted else "rolled back"
    style = "green" if entry.accepted else "yellow"
    yield Line("audit", f"transaction {entry.number} on {entry.locus.node}: {said}: {entry.reason}", style)


def _fallback(event: events.FallbackClosed) -> Iterator[Line]:
    said = "accepted" if event.fallback.accepted else "not accepted"
    yield Line("audit", f"global fallback in round {event.fallback.round}: {said}: {event.fallback.reason}")


def _proposed(event: events.PatchProposed) -> Iterator[Line]:
    size = f"+{event.added} −{event.removed}"
    what = (
        f"candidate {event.candidate}: {size} in {listed(event.files)} ({event.edit_format or event.origin})"
    )
    yield Line(event.origin, what)


def _refused(event: events.PatchRefused) -> Iterator[Line]:
    text = f"answer not applicable as {event.edit_format} ({event.reason}): {event.text}"
    yield Line(event.origin, text, "yellow")


def _synthesized(event: events.TestsSynthesized) -> Iterator[Line]:
    ids = [test for made in event.accepted for test in made.test_ids]
    if ids:
        yield Line("tester", f"{plural(len(ids), 'test')} seen to fail on the base: {listed(ids)}", "green")
    for test, why in event.discarded:
        yield Line("tester", f"discarded {test}: {why}", "yellow")


def _tests_started(event: events.TestsStarted) -> Iterator[Line]:
    targets = f", {plural(event.targets, 'target')}" if event.targets else ""
    yield Line("tests", f"running on {event.subject} (scope {event.scope}{targets})", "dim")


def _tests_finished(event: events.TestsFinished) -> Iterator[Line]:
    report = event.report
    style = "green" if report.cause is Cause.OK and not report.failed else "red"
    yield Line("tests", f"{event.subject}: {counts(report)} in {seconds(report.duration_s)}", style)


def _decided(event: events.GateDecided) -> Iterator[Line]:
    decision = event.decision
    yield Line("gate", f"{event.candidate} {verdict_text(decision)}", _VERDICT_STYLE[decision.verdict])
    for reason in decision.reasons[:SHOWN_IDS]:
        yield Line("gate", f"  {reason_text(reason)}")
    if len(decision.reasons) > SHOWN_IDS:
        yield Line("gate", f"  and {plural(len(decision.reasons) - SHOWN_IDS, 'more reason')}")


def _deadlock(event: events.DeadlockDetected) -> Iterator[Line]:
    yield Line("debugger", f"going in circles ({event.signature}); now: {event.strategy}", "yellow")


def _stage_started(event: events.StageStarted) -> Iterator[Line]:
    yield Line("stage", f"{event.stage} begins", "bold")


def _stage_finished(event: events.StageFinished) -> Iterator[Line]:
    solved = "solved" if event.solved else "not solved"
    style = "green" if event.solved else "yellow"
    yield Line("stage", f"{event.stage}: {solved}{_detail(event.reason)} ({spent(event.spend)})", style)


def _team(event: events.TeamFormed) -> Iterator[Line]:
    team = event.team
    starter = f"{team.contract.specialist} starts"
    yield Line(
        "team",
        f"{', '.join(team.names)} of {team.asked} asked; {starter}{_detail(team.contract.owned_subproblem)}",
    )
    for seat in event.assessed:
        said = "its own" if seat.eligible else "not its own"
        yield Line("team", f"  {seat.specialist}: {said}{_detail(seat.reasoning)}", "dim", detail=True)


def _relay_turn(event: events.RelayTurn) -> Iterator[Line]:
    turn = event.turn
    parts = [f"step {turn.step}, {turn.specialist}: {turn.draft.replace('_', ' ')}"]
    parts += [f"repair {turn.repair.replace('_', ' ')}"] if turn.repair != "none" else []
    parts += [f"{plural(len(turn.passing), 'target test')} passing"] if turn.passing else []
    parts += ["best taken up again"] if turn.restored else []
    following = f"to {turn.handoff.receiver}" if turn.handoff is not None else f"ends ({turn.stopped})"
    yield Line("relay", f"{', '.join(parts)}; {following}", "" if turn.progress else "yellow")


def _abstained(event: events.Abstained) -> Iterator[Line]:
    yield Line("abstain", "no patch; what was learned:", "yellow")
    for text in event.learned:
        yield Line("abstain", f"  {text}")


def _critic(event: events.CriticDecided) -> Iterator[Line]:
    veto = ", vetoes" if event.veto else ""
    style = "green" if event.verdict == "pass" else "yellow"
    yield Line("critic", f"{event.verdict}{veto}: {'; '.join(event.reasons) or 'no reason given'}", style)


def _search(event: events.SearchProgress) -> Iterator[Line]:
    yield Line("search", search_text(event), detail=bool(event.tried))


def search_text(event: events.SearchProgress) -> str:
    """`trying edits: 120 of 400, 2 plausible`."""
    total = f" of {event.total:,}" if event.total else ""
    tried = f": {event.tried:,}{total} tried, {event.plausible} plausible" if event.tried else ""
    return f"{event.stage}{tried}{_detail(event.text)}"


def _facts(event: events.FactsFound) -> Iterator[Line]:
    facts = event.facts
    if not facts.suspects:
        yield Line("facts", f"nothing to suspect{_detail('; '.join(facts.reasons))}", "yellow")
        return
    first = facts.suspects[0]
    seen = plural(len(facts.failures), "failing test")
    yield Line(
        "facts", f"most suspicious: {first.path}:{first.line}{_detail(first.code)}; {seen} looked into"
    )
    for other in facts.suspects[1:SHOWN_IDS]:
        yield Line("facts", f"  {other.path}:{other.line}{_detail(other.code)}", "dim", detail=True)


def _explored(event: events.Explored) -> Iterator[Line]:
    around = f"around {event.candidate} ({plural(len(event.failing), 'test')} failing)"
    what = event.found or "; ".join(event.reasons) or "nothing"
    style = "" if event.found else "yellow"
    yield Line(
        "explore", f"{around}: {event.tried:,} tried, {event.plausible} plausible{_detail(what)}", style
    )


def _explained(event: events.Explained) -> Iterator[Line]:
    for text in event.text.splitlines():
        if text.strip():
            yield Line("explain", text)


def _stored(event: events.EpisodeStored) -> Iterator[Line]:
    yield Line("memory", f"remembered as episode {event.episode}", "dim")


def _learned(event: events.InsightLearned) -> Iterator[Line]:
    yield Line("memory", f"lesson from {plural(len(event.episodes), 'episode')}: {event.lesson}", "dim")


def _notice(event: events.Notice) -> Iterator[Line]:
    style = {"info": "", "warning": "yellow", "error": "red"}[event.level]
    label = "" if event.level == "info" else f"{event.level}: "
    yield Line("note", f"{label}{event.text}", style)
    if event.hint:
        yield Line("note", f"  {event.hint}")


def _detail(text: str) -> str:
    return f": {text}" if text else ""


_VERDICT_STYLE = {Verdict.VERIFIED: "bold green", Verdict.UNVERIFIED: "yellow", Verdict.REFUSED: "red"}

_SPEAKERS: Mapping[type, Callable[[Any], Iterator[Line]]] = {
    events.RunStarted: _run_started,
    events.RunResumed: _run_resumed,
    events.NodeStarted: _node_started,
    events.NodeFinished: _node_finished,
    events.StageStarted: _stage_started,
    events.StageFinished: _stage_finished,
    events.TeamFormed: _team,
    events.RelayTurn: _relay_turn,
    events.Abstained: _abstained,
    events.ModelCallStarted: _call_started,
    events.ModelCallFinished: _call_finished,
    events.StreamReset: _stream_reset,
    events.ContextRetrieved: _retrieved,
    events.PlanMade: _plan,
    events.ResponsibilitiesCommitted: _committed,
    events.NodeVerified: _node_verified,
    events.Localized: _localized,
    events.TransactionClosed: _transaction,
    events.FallbackClosed: _fallback,
    events.PatchProposed: _proposed,
    events.PatchRefused: _refused,
    events.TestsSynthesized: _synthesized,
    events.TestsStarted: _tests_started,
    events.TestsFinished: _tests_finished,
    events.GateDecided: _decided,
    events.DeadlockDetected: _deadlock,
    events.CriticDecided: _critic,
    events.SearchProgress: _search,
    events.FactsFound: _facts,
    events.Explored: _explored,
    events.Explained: _explained,
    events.EpisodeStored: _stored,
    events.InsightLearned: _learned,
    events.Notice: _notice,
}
