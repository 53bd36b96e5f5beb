// All runs, newest first, with filters; it keeps itself current while something is going on.

import { useEffect, useState } from "preact/hooks";
import { get, query } from "../api";
import { ago, duration, money, shortRepository, visible } from "../text";
import type { Page, RunSummary } from "../types";
import { useDebounced, useLoad, useTitle } from "../ui/hooks";
import { Choice, Empty, Failure, Pill, Spinner } from "../ui/parts";
import { Icon } from "../ui/icons";

const PAGE = 50;
const STATES: [string, string][] = [
  ["", "All"],
  ["running", "Running"],
  ["queued", "Queued"],
  ["finished", "Finished"],
  ["cancelled", "Cancelled"],
  ["interrupted", "Interrupted"],
];
const OUTCOMES = ["verified", "unverified", "no_patch", "limit", "model", "environment", "interrupted", "defect"];

export function RunsPage() {
  useTitle("Runs");
  const [status, setStatus] = useState("");
  const [outcome, setOutcome] = useState("");
  const [text, setText] = useState("");
  const [limit, setLimit] = useState(PAGE);
  const q = useDebounced(text);
  const path = `/v1/runs${query({ status, outcome, q, limit })}`;
  const runs = useLoad(path, (signal) => get<Page<RunSummary>>(path, signal));
  const busy = runs.value?.items.some((run) => run.status === "running" || run.status === "queued") ?? false;
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && runs.again(), busy ? 3000 : 15000);
    return () => clearInterval(timer);
  }, [busy, path]);
  return (
    <>
      <div class="page-head">
        <h1>Runs</h1>
        <a class="button primary" href="#/new">
          <Icon name="plus" size={16} /> New run
        </a>
      </div>
      <div class="toolbar page-toolbar">
        <Choice label="state" options={STATES} value={status} pick={setStatus} />
        <label class="inline">
          <span class="sr-only">outcome</span>
          <select class="field" value={outcome} onChange={(event) => setOutcome(event.currentTarget.value)}>
            <option value="">any outcome</option>
            {OUTCOMES.map((one) => (
              <option key={one} value={one}>
                {one.replaceAll("_", " ")}
              </option>
            ))}
          </select>
        </label>
        <input
          type="search"
          class="field grow"
          placeholder="Find an issue or a repository"
          aria-label="Find an issue or a repository"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </div>
      {runs.error && <Failure error={runs.error} again={runs.again} />}
      {!runs.value && runs.loading && <Spinner label="Loading runs" />}
      {runs.value && <RunTable runs={runs.value.items} filtered={Boolean(status || outcome || q)} />}
      {runs.value?.next && (
        <button type="button" class="button more" onClick={() => setLimit(limit + PAGE)}>
          Show more
        </button>
      )}
    </>
  );
}

function RunTable({ runs, filtered }: { runs: RunSummary[]; filtered: boolean }) {
  if (!runs.length) {
    return filtered ? (
      <Empty title="No run is like that" />
    ) : (
      <Empty title="Nothing has run yet">
        Give it a repository and an issue: <a href="#/new">start the first run</a>.
      </Empty>
    );
  }
  return (
    <ul class="run-list">
      {runs.map((run) => (
        <RunItem key={run.id} run={run} />
      ))}
    </ul>
  );
}

function RunItem({ run }: { run: RunSummary }) {
  const going = run.status === "running" || run.status === "queued";
  const took = run.started && run.finished ? (Date.parse(run.finished) - Date.parse(run.started)) / 1000 : null;
  return (
    <li class={`run-item ${going ? "going" : ""}`}>
      <a href={`#/runs/${encodeURIComponent(run.id)}`} class="run-link">
        <span class="run-name">{visible(run.issue_title || "Untitled issue")}</span>
        <span class="quiet run-where">
          {visible(shortRepository(run.repository))} · {visible(run.workflow || "auto")}
          {going && run.node && ` · at ${visible(run.node)}`}
        </span>
      </a>
      <span class="quiet run-spend">
        {run.spend?.calls ? money(run.spend.cost_usd, run.spend.unpriced_calls ?? 0) : ""}
        {took !== null && <span>{duration(took)}</span>}
      </span>
      <span class="quiet run-time">{ago(run.created)}</span>
      <Pill state={run.status === "finished" ? (run.outcome ?? "finished") : run.status} />
    </li>
  );
}
