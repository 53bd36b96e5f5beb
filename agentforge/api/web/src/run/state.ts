// What the page knows of a run: a fold over its events. The same events give the same page, live or replayed.

import type { Event, GateDecision, GeneratedTest, Plan, Responsibility, Spend, TestFailure, TestReport } from "../types";

export interface Call {
  id: number;
  agent: string;
  /** The plan's step it is made for, where the plan has several. */
  step: string;
  model: string;
  started: string | null;
  finished: string | null;
  finishReason: string;
  tokens: number | null;
  cost: number | null;
  resets: number;
}

/** Outcomes of one subject over all its executions; the worst counts, since one failure is a failure. */
export interface Results {
  outcomes: Map<string, string>;
  failures: Map<string, TestFailure>;
  unsteady: Set<string>;
  reports: TestReport[];
}

export interface Candidate {
  id: string;
  origin: string;
  round: number;
  diff: string;
  files: string[];
  added: number;
  removed: number;
  results: Results;
  decision: GateDecision | null;
}

export interface NodeState {
  active: boolean;
  visits: number;
}

export interface Note {
  seq: number;
  level: "info" | "warning" | "error";
  text: string;
  hint: string;
}

export interface RunView {
  started: string | null;
  ended: string | null;
  title: string;
  repository: string;
  base: string;
  workflow: string;
  /** The workflow of the stage at work, where a run has stages. */
  stage: string;
  /** Responsibilities whose own checks passed. */
  settled: Set<string>;
  models: Record<string, string>;
  round: number;
  nodes: Map<string, NodeState>;
  plan: Plan | null;
  calls: Call[];
  context: { symbols: [string, string, number, number][]; episodes: string[] } | null;
  baseline: Results;
  candidates: Candidate[];
  testing: { subject: string; scope: string } | null;
  tests: { accepted: GeneratedTest[]; discarded: [string, string][] };
  critic: { verdict: string; reasons: string[]; veto: boolean } | null;
  search: { stage: string; tried: number; plausible: number; total: number | null; text: string } | null;
  notes: Note[];
  explanation: string;
  episode: string;
  spend: Spend | null;
  end: { outcome: string; exitCode: number; summary: string } | null;
}

function noResults(): Results {
  return { outcomes: new Map(), failures: new Map(), unsteady: new Set(), reports: [] };
}

export function emptyView(): RunView {
  return {
    started: null, ended: null, title: "", repository: "", base: "", workflow: "", stage: "", settled: new Set(), models: {}, round: 0,
    nodes: new Map(), plan: null, calls: [], context: null, baseline: noResults(), candidates: [],
    testing: null, tests: { accepted: [], discarded: [] }, critic: null, search: null, notes: [],
    explanation: "", episode: "", spend: null, end: null,
  }; // prettier-ignore
}

const BADNESS = ["passed", "xfailed", "skipped", "xpassed", "failed", "error"];

function worse(one: string, other: string): string {
  return BADNESS.indexOf(one) >= BADNESS.indexOf(other) ? one : other;
}

function withReport(results: Results, report: TestReport): Results {
  const outcomes = new Map(results.outcomes);
  const unsteady = new Set(results.unsteady);
  for (const [test, outcome] of Object.entries(report.outcomes)) {
    const before = outcomes.get(test);
    if (before !== undefined && before !== outcome) unsteady.add(test);
    outcomes.set(test, before === undefined ? outcome : worse(before, outcome));
  }
  const failures = new Map([...results.failures, ...Object.entries(report.failures)]);
  return { outcomes, failures, unsteady, reports: [...results.reports, report] };
}

function changeCall(view: RunView, id: number, change: (call: Call) => Call): RunView {
  return { ...view, calls: view.calls.map((call) => (call.id === id ? change(call) : call)) };
}

function changeCandidate(view: RunView, id: string, change: (one: Candidate) => Candidate): RunView {
  return { ...view, candidates: view.candidates.map((one) => (one.id === id ? change(one) : one)) };
}

function setNode(view: RunView, node: string, active: boolean): RunView {
  const nodes = new Map(view.nodes);
  const visits = (nodes.get(node)?.visits ?? 0) + (active ? 1 : 0);
  nodes.set(node, { active, visits });
  return { ...view, nodes };
}

function note(view: RunView, seq: number, level: Note["level"], text: string, hint = ""): RunView {
  return { ...view, notes: [...view.notes, { seq, level, text, hint }] };
}

/** The view after one durable event; tokens go to the transcripts instead. */
export function fold(view: RunView, event: Event): RunView {
  switch (event.type) {
    case "run_started":
      return {
        ...view,
        started: view.started ?? event.time,
        title: event.issue_title,
        repository: event.repository,
        base: event.base,
        workflow: event.workflow,
        models: event.models,
      };
    case "node_started":
      return { ...setNode(view, event.node, true), round: event.round, end: null, ended: null };
    case "node_finished":
      return setNode(view, event.node, false);
    case "model_call_started":
      return startCall(view, event);
    case "stream_reset":
      return changeCall(view, event.call, (call) => ({ ...call, resets: call.resets + 1 }));
    case "model_call_finished":
      return finishCall(view, event);
    case "plan_made":
      return { ...view, plan: event.plan };
    case "context_retrieved":
      return { ...view, context: { symbols: event.symbols, episodes: event.episodes } };
    case "search_progress":
      return { ...view, search: event };
    case "facts_found": {
      const [first] = event.facts.suspects;
      const what = first ? `most suspicious: ${first.path}:${first.line}: ${first.code}` : event.facts.reasons.join("; ");
      return note(view, event.seq, "info", what || "nothing to suspect");
    }
    case "explored":
      return note(view, event.seq, "info", `searched around ${event.candidate}: ${event.tried} edits tried, ${event.found || "nothing found"}`);
    case "explained":
      return { ...view, explanation: event.text };
    case "episode_stored":
      return { ...view, episode: event.episode };
    case "notice":
      return note(view, event.seq, event.level, event.text, event.hint);
    case "deadlock_detected":
      return note(view, event.seq, "warning", `going in circles (${event.signature}); next: ${event.strategy}`);
    case "patch_refused":
      return note(view, event.seq, "warning", `an answer of the ${event.origin} was not applied: ${event.text}`);
    case "critic_decided":
      return { ...view, critic: { verdict: event.verdict, reasons: event.reasons, veto: event.veto } };
    case "run_resumed":
      return note(view, event.seq, "info", "the run was taken up again here");
    case "run_finished":
      return finish(view, event);
    default:
      return foldTests(foldParts(view, event), event);
  }
}

/** Stages of a cascade, and responsibilities with their repairs. */
function foldParts(view: RunView, event: Event): RunView {
  switch (event.type) {
    case "stage_started":
      return note({ ...view, stage: event.workflow, nodes: new Map() }, event.seq, "info", `stage ${event.stage} begins`);
    case "stage_finished":
      return note(view, event.seq, "info", `stage ${event.stage}: ${event.solved ? "solved" : event.reason || "not solved"}`);
    case "responsibilities_committed":
      return { ...view, plan: planOf(event.graph) };
    case "node_verified":
      return event.evidence.every((one) => one.passed)
        ? { ...view, settled: new Set([...view.settled, event.responsibility]) }
        : note(view, event.seq, "warning", `the code of ${event.responsibility} failed its own checks`);
    case "localized":
      return note(view, event.seq, "info", placed(event.locus));
    case "transaction_closed": {
      const { number, accepted, reason } = event.transaction;
      return note(view, event.seq, accepted ? "info" : "warning", `repair ${number} ${accepted ? "kept" : "rolled back"}: ${reason}`);
    }
    case "fallback_closed":
      return note(view, event.seq, "info", `repair of the whole ${event.fallback.accepted ? "kept" : "refused"}: ${event.fallback.reason}`);
    case "insight_learned":
      return note(view, event.seq, "info", `learned: ${event.lesson}`);
    default:
      return view;
  }
}

function placed(locus: { node: string; kind: string; rule: string; confidence: string }): string {
  if (locus.kind === "none") return "the locator abstains: no evidence for one responsibility";
  return `the failure is put to ${locus.node} (rule ${locus.rule}, confidence ${locus.confidence})`;
}

/** Responsibilities as steps: they, too, are named before any code exists. */
function planOf(graph: { explanation: string; nodes: Responsibility[]; fallback: boolean }): Plan {
  const steps = graph.nodes.filter((node) => node.leaf);
  return {
    explanation: graph.explanation,
    fallback: graph.fallback,
    steps: steps.map(({ id, goal, files, symbols, depends_on }) => ({ id, agent: "coder", description: goal, files, symbols, depends_on })),
  };
}

function foldTests(view: RunView, event: Event): RunView {
  switch (event.type) {
    case "patch_proposed": {
      const { candidate: id, origin, round, diff, files, added, removed } = event;
      const known = view.candidates.filter((one) => one.id !== id);
      const made = { id, origin, round, diff, files, added, removed, results: noResults(), decision: null };
      return { ...view, candidates: [...known, made] };
    }
    case "tests_synthesized":
      return {
        ...view,
        tests: {
          accepted: [...view.tests.accepted, ...event.accepted],
          discarded: [...view.tests.discarded, ...event.discarded],
        },
      };
    case "tests_started":
      return { ...view, testing: { subject: event.subject, scope: event.scope } };
    case "tests_finished": {
      const next = { ...view, testing: null };
      if (event.subject === "base") return { ...next, baseline: withReport(view.baseline, event.report) };
      return changeCandidate(next, event.subject, (one) => ({
        ...one,
        results: withReport(one.results, event.report),
      }));
    }
    case "gate_decided":
      return changeCandidate(view, event.candidate, (one) => ({ ...one, decision: event.decision }));
    default:
      return view;
  }
}

function startCall(view: RunView, event: Event & { type: "model_call_started" }): RunView {
  const call: Call = {
    id: event.call,
    agent: event.agent,
    step: event.step ?? "",
    model: event.model,
    started: event.time,
    finished: null,
    finishReason: "",
    tokens: null,
    cost: null,
    resets: 0,
  };
  return { ...view, calls: [...view.calls.filter((one) => one.id !== event.call), call] };
}

function finishCall(view: RunView, event: Event & { type: "model_call_finished" }): RunView {
  const next = changeCall(view, event.call, (call) => ({
    ...call,
    finished: event.time ?? "",
    finishReason: event.finish_reason,
    tokens: event.usage.completion_tokens,
    cost: event.cost_usd,
  }));
  return { ...next, spend: event.spend };
}

function finish(view: RunView, event: Event & { type: "run_finished" }): RunView {
  const nodes = new Map([...view.nodes].map(([name, state]) => [name, { ...state, active: false }]));
  return {
    ...view,
    nodes,
    testing: null,
    ended: event.time,
    spend: event.spend,
    end: { outcome: event.outcome, exitCode: event.exit_code, summary: event.summary },
  };
}

/** The node at work: the last one that began and has not ended. */
export function activeNode(view: RunView): string | null {
  for (const [name, state] of view.nodes) if (state.active) return name;
  return null;
}

export function totalTokens(spend: Spend | null): number {
  if (!spend) return 0;
  return spend.tokens ?? (spend.prompt_tokens ?? 0) + (spend.completion_tokens ?? 0);
}
