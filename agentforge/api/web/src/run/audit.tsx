// Why a changed line is there: its responsibility, how it came about, and the evidence. From the audit record where
// the run has one, from the events (plan, candidate, gate) where it has not yet.

import { useEffect, useRef } from "preact/hooks";
import { get } from "../api";
import { clipLine, plural, visible } from "../text";
import type { GateDecision, Step } from "../types";
import { useLoad } from "../ui/hooks";
import { Icon } from "../ui/icons";
import { Pill, Spinner } from "../ui/parts";
import type { Place } from "./diff";
import type { Candidate, RunView } from "./state";

interface Lines {
  old: [number, number] | null;
  new: [number, number] | null;
}

interface Proof {
  kind: string;
  id: string;
  passed: boolean;
  text: string;
}

interface Change {
  by: string;
  candidate: string;
  round: number;
  text: string[];
  verdict: string | null;
}

interface AuditHunk {
  file: string;
  lines: Lines;
  unit: string;
  responsibility: string | null;
  why: string;
  exception: { rationale?: string } | string | null;
  evidence: Proof[];
  history: Change[];
}

interface Audit {
  hunks?: AuditHunk[];
  steps?: Step[];
  result?: { candidate: string; files: { path: string; steps: string[] }[]; decision: GateDecision } | null;
}

export function AuditPanel(props: { run: string; view: RunView; candidate: Candidate; place: Place; close: () => void }) {
  const { run, view, candidate, place, close } = props;
  const audit = useLoad(view.end ? `audit ${run} ${view.end.outcome}` : null, (signal) =>
    get<Audit>(`/v1/runs/${encodeURIComponent(run)}/audit`, signal),
  );
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), [place.path, place.line, place.side]);
  const record = audit.value?.result?.candidate === candidate.id ? audit.value : undefined;
  return (
    <aside class="audit" aria-labelledby="audit-title" onKeyDown={(event) => event.key === "Escape" && close()}>
      <header class="audit-head">
        <h2 id="audit-title" tabIndex={-1} ref={heading}>
          Why line {place.line}?
        </h2>
        <button type="button" class="button ghost" aria-label="Close the audit view" onClick={close}>
          <Icon name="cross" size={16} />
        </button>
      </header>
      <p class="quiet">
        <code>{visible(place.path)}</code>, {place.side === "old" ? "line of the base that goes" : "line of the candidate"}
      </p>
      {audit.loading && <Spinner label="Reading the audit record" />}
      <Responsibility record={record} view={view} candidate={candidate} place={place} />
      <Evidence candidate={candidate} decision={record?.result?.decision ?? candidate.decision} />
    </aside>
  );
}

function Responsibility(props: { record: Audit | undefined; view: RunView; candidate: Candidate; place: Place }) {
  const { record, view, candidate, place } = props;
  const hunk = record?.hunks?.find((one) => covers(one, place));
  const file = record?.result?.files.find((one) => one.path === place.path);
  const steps = (record?.steps ?? view.plan?.steps ?? []).filter((step) =>
    file ? file.steps.includes(step.id) : step.files.includes(place.path),
  );
  return (
    <>
      <h3>Responsibility</h3>
      {hunk ? <Owner hunk={hunk} /> : <Steps steps={steps} />}
      {hunk?.history.length ? <History changes={hunk.history} /> : <Origin candidate={candidate} />}
    </>
  );
}

function Owner({ hunk }: { hunk: AuditHunk }) {
  const exception = typeof hunk.exception === "string" ? hunk.exception : hunk.exception?.rationale;
  return (
    <>
      <p>
        {hunk.responsibility && <span class="step-id">{visible(hunk.responsibility)}</span>} {visible(hunk.why)}
      </p>
      <p class="quiet">
        owns <code>{visible(hunk.unit)}</code>
      </p>
      {exception && <p class="tone-warn">An exception to the plan: {visible(exception)}</p>}
    </>
  );
}

function Origin({ candidate }: { candidate: Candidate }) {
  return (
    <>
      <h3>Origin</h3>
      <p>
        Proposed by the <b>{visible(candidate.origin)}</b>
        {candidate.round ? ` in debug round ${candidate.round}` : " in its first answer"}, as part of candidate{" "}
        <b>{visible(candidate.id)}</b>.
      </p>
    </>
  );
}

/** How the place came to look as it does: one entry for each candidate that changed it. */
function History({ changes }: { changes: Change[] }) {
  return (
    <>
      <h3>How it came about</h3>
      <ol class="changes">
        {changes.map((change, index) => (
          <li key={index}>
            <p>
              <b>{visible(change.candidate)}</b> by the {visible(change.by)} {change.verdict && <Pill state={change.verdict} />}
            </p>
            <pre class="change-text" dir="ltr">
              {change.text.slice(0, 40).map((line) => (
                <span key={line} class={line.startsWith("+") ? "plus" : "minus"}>
                  {visible(clipLine(line, 300))}
                  {"\n"}
                </span>
              ))}
            </pre>
          </li>
        ))}
      </ol>
    </>
  );
}

function Steps({ steps }: { steps: Step[] }) {
  if (!steps.length) return <p class="quiet">No step of the plan names this file: the change belongs to the candidate as a whole.</p>;
  return (
    <ul class="plain">
      {steps.map((step) => (
        <li key={step.id}>
          <span class="step-id">{step.id}</span> {visible(step.description)}
        </li>
      ))}
    </ul>
  );
}

/** Whether a hunk of the record covers the line; ranges are [first, last]. */
function covers(hunk: AuditHunk, place: Place): boolean {
  const range = hunk.lines[place.side];
  return hunk.file === place.path && range !== null && place.line >= range[0] && place.line <= range[1];
}

function Evidence({ candidate, decision }: { candidate: Candidate; decision: GateDecision | null }) {
  if (!decision) return <p class="quiet">This candidate has not been judged yet.</p>;
  return (
    <>
      <h3>
        Evidence <Pill state={decision.verdict} />
      </h3>
      {decision.fail_to_pass.length > 0 && (
        <>
          <p>Failed on the base, pass with this patch:</p>
          <ul class="plain ids">
            {decision.fail_to_pass.slice(0, 20).map((id) => (
              <li key={id}>
                <code>{visible(id)}</code>
              </li>
            ))}
          </ul>
        </>
      )}
      <p>
        {plural(decision.pass_to_pass.length, "test")} passed before and still pass
        {decision.verdict === "refused" && `; ${plural(decision.reasons.length, "reason")} against it`}.{" "}
        <span class="quiet">
          {plural(candidate.results.reports.length, "execution")}, tests that ran: {visible(decision.scope)}.
        </span>
      </p>
    </>
  );
}
