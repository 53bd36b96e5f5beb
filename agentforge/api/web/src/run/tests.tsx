// Base against candidate, test by test; a click opens what the test said.

import { useMemo, useState } from "preact/hooks";
import { getText } from "../api";
import { clip, duration, plainLog, plural, visible } from "../text";
import type { TestReport } from "../types";
import { useLoad } from "../ui/hooks";
import { Choice, Failure, Log, Spinner, tone } from "../ui/parts";
import { type Change, type TestRow, countBy, matrixOf } from "./matrix";
import type { Candidate, Results, RunView } from "./state";

const ROWS_AT_ONCE = 150;
const SQUARES = 800;
const LOG_LIMIT = 120_000;

const WORDS: Record<Change, string> = {
  fixed: "fixed", broken: "broken", failing: "still failing", kept: "kept", new: "new", waiting: "not run yet",
}; // prettier-ignore

export function TestsPanel({ run, view, selected }: { run: string; view: RunView; selected: Candidate | undefined }) {
  const rows = useMemo(() => matrixOf(view, selected), [view.baseline, view.candidates, view.tests, selected]);
  const [filter, setFilter] = useState("changed");
  const [wanted, setWanted] = useState("");
  const [open, setOpen] = useState<string | null>(null);
  const [limit, setLimit] = useState(ROWS_AT_ONCE);
  const counts = countBy(rows);
  if (!rows.length && !view.testing) return null;
  const changed = rows.filter((row) => row.change !== "kept" && row.change !== "waiting");
  const shown = (filter === "changed" && changed.length ? changed : rows).filter((row) => row.id.includes(wanted));
  return (
    <section class="panel" aria-labelledby="tests-title">
      <h2 id="tests-title" class="panel-title">
        Tests <span class="quiet">{sentence(counts, view, selected)}</span>
      </h2>
      <Squares rows={rows} candidates={view.candidates} selected={selected} />
      <div class="toolbar">
        <Choice
          label="which tests"
          value={filter}
          pick={setFilter}
          options={[
            ["changed", `Changed ${changed.length}`],
            ["all", `All ${rows.length}`],
          ]}
        />
        <input
          type="search"
          class="field grow"
          placeholder="Find a test id"
          aria-label="Find a test id"
          value={wanted}
          onInput={(event) => setWanted(event.currentTarget.value)}
        />
      </div>
      <div class="table-scroll" tabIndex={0} role="region" aria-label="Test matrix">
        <table class="matrix">
          <caption class="sr-only">Outcome of every test on the base and on each candidate</caption>
          <thead>
            <tr>
              <th scope="col">test</th>
              <th scope="col">base</th>
              {view.candidates.map((one) => (
                <th key={one.id} scope="col" class={one === selected ? "selected" : ""}>
                  {visible(one.id)}
                </th>
              ))}
              <th scope="col">
                <span class="sr-only">change</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.slice(0, limit).map((row) => (
              <RowView key={row.id} row={row} view={view} selected={selected} open={open === row.id} toggle={() => setOpen(open === row.id ? null : row.id)} />
            ))}
          </tbody>
        </table>
      </div>
      {shown.length > limit && (
        <button type="button" class="button more" onClick={() => setLimit(limit * 4)}>
          Show more of {plural(shown.length - limit, "test")}
        </button>
      )}
      <Executions run={run} view={view} selected={selected} />
    </section>
  );
}

function sentence(counts: Map<Change, number>, view: RunView, selected: Candidate | undefined): string {
  if (view.testing) return `running on ${view.testing.subject} (${view.testing.scope})`;
  if (!selected?.results.reports.length) return plural(view.baseline.outcomes.size, "test") + " on the base";
  const parts = (["fixed", "broken", "failing", "kept"] as const).filter((change) => counts.get(change));
  return parts.map((change) => `${counts.get(change)} ${WORDS[change]}`).join(" · ");
}

/** Every test as a square, base above candidates: the whole suite at a glance. */
function Squares({ rows, candidates, selected }: { rows: TestRow[]; candidates: Candidate[]; selected: Candidate | undefined }) {
  const some = rows.slice(0, SQUARES);
  const lines: [string, (row: TestRow) => string | null, boolean][] = [
    ["base", (row) => row.base, false],
    ...candidates.map((one, index): [string, (row: TestRow) => string | null, boolean] => [
      one.id,
      (row) => row.outcomes[index] ?? null,
      one === selected,
    ]),
  ];
  return (
    <div class="squares" aria-hidden="true">
      {lines.map(([name, outcome, picked]) => (
        <div key={name} class={`squares-row ${picked ? "selected" : ""}`}>
          <span class="squares-name">{visible(name)}</span>
          <span class="squares-cells">
            {some.map((row) => {
              const said = outcome(row);
              return <i key={row.id} class={`square ${said ? `tone-${tone(said)}` : "absent"} ${row.target ? "target" : ""}`} />;
            })}
          </span>
        </div>
      ))}
    </div>
  );
}

function RowView(props: { row: TestRow; view: RunView; selected: Candidate | undefined; open: boolean; toggle: () => void }) {
  const { row, view, selected, open, toggle } = props;
  const [path, ...names] = row.id.split("::");
  return (
    <>
      <tr class={`change-${row.change}`} data-test={row.id}>
        <th scope="row">
          <button type="button" class="test-name" aria-expanded={open} onClick={toggle}>
            <span class="quiet">{visible(path ?? "")}</span>
            {names.length > 0 && <span class="quiet">::</span>}
            <b>{visible(names.join("::"))}</b>
            {row.target && <span class="tag">target</span>}
          </button>
        </th>
        <Outcome outcome={row.base} unsteady={view.baseline.unsteady.has(row.id)} />
        {view.candidates.map((one, index) => (
          <Outcome key={one.id} outcome={row.outcomes[index] ?? null} unsteady={one.results.unsteady.has(row.id)} selected={one === selected} />
        ))}
        <td class="change">{WORDS[row.change]}</td>
      </tr>
      {open && (
        <tr class="test-detail">
          <td colSpan={view.candidates.length + 3}>
            <Said name="base" results={view.baseline} id={row.id} />
            {selected && <Said name={selected.id} results={selected.results} id={row.id} />}
          </td>
        </tr>
      )}
    </>
  );
}

function Outcome({ outcome, unsteady, selected }: { outcome: string | null; unsteady: boolean; selected?: boolean }) {
  if (!outcome) return <td class="outcome quiet">–</td>;
  return (
    <td class={`outcome ${selected ? "selected" : ""}`}>
      <span class={`word tone-${tone(outcome)}`}>{visible(outcome)}</span>
      {unsteady && (
        <span class="tag" title="passed once and failed once">
          unsteady
        </span>
      )}
    </td>
  );
}

/** What one test said on the base or on a candidate. */
function Said({ name, results, id }: { name: string; results: Results; id: string }) {
  const failure = results.failures.get(id);
  const outcome = results.outcomes.get(id);
  if (!failure) return <p class="quiet">On {visible(name)}: {outcome ? visible(outcome) : "did not run"}.</p>;
  return (
    <div class="said">
      <p>
        On {visible(name)}: <b>{visible(failure.exception)}</b>
      </p>
      <Log label={`failure of ${visible(id)} on ${visible(name)}`} text={clip(plainLog(failure.traceback || failure.message), LOG_LIMIT)} />
    </div>
  );
}

function Executions({ run, view, selected }: { run: string; view: RunView; selected: Candidate | undefined }) {
  const all: [string, TestReport][] = [
    ...view.baseline.reports.map((report): [string, TestReport] => ["base", report]),
    ...(selected?.results.reports ?? []).map((report): [string, TestReport] => [selected?.id ?? "", report]),
  ];
  if (!all.length) return null;
  return (
    <details class="executions">
      <summary>Logs of {plural(all.length, "execution")}</summary>
      <ul>
        {all.map(([subject, report], index) => (
          <li key={index}>
            <Execution run={run} subject={subject} report={report} />
          </li>
        ))}
      </ul>
    </details>
  );
}

function Execution({ run, subject, report }: { run: string; subject: string; report: TestReport }) {
  const [open, setOpen] = useState(false);
  const [full, setFull] = useState(false);
  const name = report.log_path.split("/").pop() ?? "";
  const log = useLoad(full && name ? `${run}/${name}` : null, (signal) =>
    getText(`/v1/runs/${encodeURIComponent(run)}/logs/${encodeURIComponent(name)}`, signal),
  );
  const cause = report.cause === "ok" ? "" : ` · ${report.cause.replaceAll("_", " ")} ${report.cause_detail}`;
  return (
    <>
      <button type="button" class="execution" aria-expanded={open} onClick={() => setOpen(!open)}>
        {visible(subject)}{" "}
        <span class="quiet">
          {visible(report.scope)} · {plural(report.collected, "test")} · {duration(report.duration_s)} · exit {report.exit_code ?? "–"}
          {visible(cause)}
        </span>
      </button>
      {open && (
        <div class="said">
          <p class="quiet">
            <code>{visible(report.command.join(" "))}</code>
          </p>
          <Log label={`log of ${visible(subject)}`} text={clip(plainLog(log.value ?? report.output), LOG_LIMIT)} />
          {log.error && <Failure error={log.error} />}
          {log.loading && <Spinner label="Loading the whole log" />}
          {!full && name && (
            <button type="button" class="button small" onClick={() => setFull(true)}>
              Whole log
            </button>
          )}
        </div>
      )}
    </>
  );
}
