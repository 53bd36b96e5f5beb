// One run, to watch and to act on.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Problem, get, getBlob, getText, post } from "../api";
import { ago, duration, money, plural, shortRepository, visible } from "../text";
import type { RunSummary } from "../types";
import { useLoad, useNow, useTitle } from "../ui/hooks";
import { CopyButton, Empty, Failure, IconButton, Pill, Spinner } from "../ui/parts";
import { AuditPanel } from "./audit";
import { DiffView, type Place } from "./diff";
import { type Edge, WorkflowGraph } from "./graph";
import { Lanes } from "./lanes";
import { PlanPanel } from "./plan";
import { RoundsPanel } from "./rounds";
import { type Candidate, type RunView, activeNode, totalTokens } from "./state";
import { TestsPanel } from "./tests";
import { useRun } from "./use-run";

export function RunPage({ id }: { id: string }) {
  const path = `/v1/runs/${encodeURIComponent(id)}`;
  const summary = useLoad(path, (signal) => get<RunSummary>(path, signal));
  useTitle(summary.value?.issue_title ?? "Run");
  if (summary.error instanceof Problem && summary.error.status === 404)
    return <Empty title="There is no such run">It may have been removed. <a href="#/">All runs</a></Empty>;
  if (!summary.value) return summary.error ? <Failure error={summary.error} again={summary.again} /> : <Spinner label="Loading the run" />;
  return <Run key={id} path={path} summary={summary.value} reload={summary.again} />;
}

function Run({ path, summary, reload }: { path: string; summary: RunSummary; reload: () => void }) {
  const [turn, setTurn] = useState(0);
  const { view, transcripts, state } = useRun(summary.id, turn);
  const [picked, setPicked] = useState<string | null>(null);
  const [place, setPlace] = useState<Place | null>(null);
  useEffect(() => {
    if (state === "ended" || state === "live") reload();
  }, [state]);
  // A run that waits in the queue has no events yet: its place is asked for now and then.
  useEffect(() => {
    if (summary.status !== "queued") return;
    const timer = setInterval(reload, 2000);
    return () => clearInterval(timer);
  }, [summary.status]);
  const edges = useEdges(view.stage || view.workflow || summary.workflow);
  const nodes = useMemo(() => [...new Set(edges.flatMap((edge) => [edge.from, edge.to]))], [edges]);
  const selected = view.candidates.find((one) => one.id === picked) ?? view.candidates.at(-1);
  const choose = (id: string): void => {
    setPicked(id);
    setPlace(null);
  };
  const resumed = (): void => {
    setTurn((old) => old + 1);
    reload();
  };
  return (
    <div class="run" data-stream={state} data-status={summary.status}>
      <Header path={path} summary={summary} view={view} resumed={resumed} reload={reload} />
      <Announcer view={view} />
      <Progress view={view} summary={summary} edges={edges} />
      <EndNote view={view} />
      <Lanes view={view} nodes={nodes} transcripts={transcripts} />
      <div class="run-grid">
        <div class="run-side">
          <PlanPanel view={view} />
          <RoundsPanel view={view} selected={selected?.id ?? ""} pick={choose} />
          <Notes view={view} />
        </div>
        <div class="run-main">
          {selected && <CandidatePanel view={view} selected={selected} choose={choose} place={place} ask={setPlace} run={summary.id} />}
          <TestsPanel run={summary.id} view={view} selected={selected} />
        </div>
      </div>
    </div>
  );
}

interface HeaderProps {
  path: string;
  summary: RunSummary;
  view: RunView;
  resumed: () => void;
  reload: () => void;
}

function Header({ path, summary, view, resumed, reload }: HeaderProps) {
  const [error, setError] = useState<Error | null>(null);
  const [asked, setAsked] = useState(false);
  const going = summary.status === "running" || summary.status === "queued";
  const over = view.end !== null || !going;
  const outcome = view.end?.outcome ?? (over ? (summary.outcome ?? summary.status) : summary.status);
  const act = (action: "cancel" | "resume") => async (): Promise<void> => {
    setError(null);
    setAsked(true);
    try {
      await post(`${path}/${action}`);
      if (action === "resume") resumed();
      else reload();
    } catch (problem) {
      setError(problem as Error);
    }
    setAsked(false);
  };
  const canResume = !going && ["interrupted", "cancelled", "failed"].includes(summary.status);
  return (
    <header class="run-header">
      <div class="run-title">
        <p class="crumbs">
          <a href="#/">Runs</a> <span aria-hidden="true">/</span> <code>{summary.id}</code>
        </p>
        <h1>{visible(view.title || summary.issue_title || "Untitled issue")}</h1>
        <p class="quiet meta">
          <span title={visible(summary.repository)}>{visible(shortRepository(summary.repository))}</span>
          {(view.base || summary.base) && <code>{visible((view.base || summary.base || "").slice(0, 10))}</code>}
          <span>{visible(view.workflow || summary.workflow)}</span>
          <span>{ago(summary.created)}</span>
        </p>
      </div>
      <div class="run-state">
        <Figures view={view} summary={summary} over={over} outcome={outcome} />
        <div class="actions">
          {!over && <IconButton icon="stop" label={asked ? "Cancelling" : "Cancel"} kind="danger" disabled={asked} onClick={act("cancel")} />}
          {canResume && <IconButton icon="play" label={asked ? "Resuming" : "Resume"} kind="primary" disabled={asked} onClick={act("resume")} />}
          {over && <PatchActions path={path} summary={summary} />}
        </div>
        {error && <Failure error={error} />}
      </div>
    </header>
  );
}

function Figures(props: { view: RunView; summary: RunSummary; over: boolean; outcome: string }) {
  const { view, summary, over, outcome } = props;
  const now = useNow(!over);
  const started = Date.parse(view.started ?? summary.started ?? "");
  const ended = over ? Date.parse(view.ended ?? summary.finished ?? "") : now;
  const elapsed = Number.isNaN(started) || Number.isNaN(ended) ? null : Math.max(0, ended - started) / 1000;
  const spend = view.spend ?? summary.spend;
  return (
    <dl class="figures">
      <div>
        <dt>state</dt>
        <dd>
          <Pill state={outcome} />
        </dd>
      </div>
      <div>
        <dt>time</dt>
        <dd>{elapsed === null ? "–" : duration(over ? elapsed : Math.floor(elapsed))}</dd>
      </div>
      <div>
        <dt>cost</dt>
        <dd>{spend?.calls ? money(spend.cost_usd, spend.unpriced_calls ?? 0) : "–"}</dd>
      </div>
      <div>
        <dt>tokens</dt>
        <dd>{totalTokens(spend).toLocaleString("en")}</dd>
      </div>
      <div>
        <dt>round</dt>
        <dd>{view.round}</dd>
      </div>
    </dl>
  );
}

function PatchActions({ path, summary }: { path: string; summary: RunSummary }) {
  const [missing, setMissing] = useState<Error | null>(null);
  if (summary.outcome !== "verified" && summary.outcome !== "unverified") return null;
  const download = async (): Promise<void> => {
    try {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await getBlob(`${path}/patch`));
      link.download = `${summary.id}.diff`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    } catch (error) {
      setMissing(error as Error);
    }
  };
  return (
    <>
      <CopyButton label="Copy patch" text={() => getText(`${path}/patch`)} />
      <IconButton icon="download" label="Download" onClick={download} />
      {missing && <Failure error={missing} />}
    </>
  );
}

/** Milestones for screen readers; tokens would drown everything else. */
function Announcer({ view }: { view: RunView }) {
  const last = view.candidates.at(-1);
  const said = view.end
    ? `Finished: ${view.end.outcome.replaceAll("_", " ")}. ${view.end.summary}`
    : last?.decision
      ? `Candidate ${last.id} was ${last.decision.verdict}`
      : (activeNode(view) ?? "");
  return (
    <p class="sr-only" role="status" aria-live="polite">
      {visible(said)}
    </p>
  );
}

function useEdges(name: string): Edge[] {
  const workflow = useLoad(name ? `/v1/workflows/${name}` : null, (signal) =>
    get<{ graph: { edges?: Edge[] } }>(`/v1/workflows/${encodeURIComponent(name)}`, signal),
  );
  return useMemo(() => workflow.value?.graph.edges ?? [], [workflow.value]);
}

function Progress({ view, summary, edges }: { view: RunView; summary: RunSummary; edges: Edge[] }) {
  const name = view.stage || view.workflow || summary.workflow;
  if (summary.status === "queued" && !view.started) return <p class="panel pad quiet">Waiting in the queue for a free worker.</p>;
  if (summary.error && !view.end) return <Failure error={new Error(summary.error)} />;
  if (!edges.length) return null;
  return (
    <section class="panel graph-panel" aria-label="Workflow">
      <WorkflowGraph name={name} edges={edges} view={view} />
      {view.search && (
        <p class="quiet pad search-line">
          {visible(view.search.stage)}: {plural(view.search.tried, "edit")} tried
          {view.search.total !== null && ` of ${view.search.total}`}, {view.search.plausible} plausible {visible(view.search.text)}
        </p>
      )}
    </section>
  );
}

function EndNote({ view }: { view: RunView }) {
  if (!view.end) return null;
  return (
    <section class={`panel end end-${view.end.outcome}`} aria-label="Result">
      <p class="end-summary">
        <Pill state={view.end.outcome} /> {visible(view.end.summary)}
      </p>
      {view.explanation && (
        <details>
          <summary>Explanation</summary>
          <p class="prose preserve">{visible(view.explanation)}</p>
        </details>
      )}
    </section>
  );
}

function Notes({ view }: { view: RunView }) {
  const [first, ...more] = [...view.notes].reverse();
  if (!first) return null;
  return (
    <section class="panel" aria-labelledby="notes-title">
      <h2 id="notes-title" class="panel-title">
        Notes
      </h2>
      <ul class="notes">
        {[first, ...more].slice(0, 50).map((note) => (
          <li key={`${note.seq} ${note.text}`} class={note.level}>
            {visible(note.text)}
            {note.hint && <span class="quiet"> {visible(note.hint)}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}

interface CandidateProps {
  run: string;
  view: RunView;
  selected: Candidate;
  choose: (id: string) => void;
  place: Place | null;
  ask: (place: Place | null) => void;
}

function CandidatePanel({ run, view, selected, choose, place, ask }: CandidateProps) {
  const asked = useRef<Element | null>(null);
  const open = (at: Place): void => {
    asked.current = document.activeElement;
    ask(at);
  };
  const close = (): void => {
    ask(null);
    if (asked.current instanceof HTMLElement) asked.current.focus();
  };
  const before = view.candidates[view.candidates.indexOf(selected) - 1];
  return (
    <section class="panel candidate" aria-labelledby="candidate-title">
      <div class="panel-title with-tools">
        <h2 id="candidate-title">
          Candidate{" "}
          <span class="quiet">
            base on the left, {visible(selected.id)} on the right{before ? `; what is new since ${visible(before.id)} has a bar` : ""}
          </span>
        </h2>
        {view.candidates.length > 1 && (
          <div class="choice" role="group" aria-label="candidate">
            {view.candidates.map((one) => (
              <button key={one.id} type="button" class="chip" aria-pressed={one === selected} onClick={() => choose(one.id)}>
                {visible(one.id)}
              </button>
            ))}
          </div>
        )}
      </div>
      <p class="hint quiet">Choose a changed line to see who is responsible for it, and on which evidence it stands.</p>
      <div class={place ? "with-audit" : ""}>
        <DiffView diff={selected.diff} {...(before ? { before: before.diff } : {})} place={place} ask={open} />
        {place && <AuditPanel run={run} view={view} candidate={selected} place={place} close={close} />}
      </div>
    </section>
  );
}
