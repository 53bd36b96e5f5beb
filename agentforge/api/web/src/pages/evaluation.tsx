// Results of experiments: tables of trials and plots, when there are any.

import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { get } from "../api";
import { plural, visible } from "../text";
import { useLoad, useTitle } from "../ui/hooks";
import { Empty, Failure, Spinner } from "../ui/parts";

type Cell = string | number | boolean | null;
type Json = Cell | Json[] | { [name: string]: Json };
type Trial = Record<string, Cell>;

interface Listed {
  id: string;
  title?: string;
  name?: string;
  created?: string;
  [name: string]: Json | undefined;
}

export function EvaluationPage({ id }: { id?: string }) {
  return id ? <Evaluation id={id} /> : <Evaluations />;
}

function Evaluations() {
  useTitle("Evaluation");
  const list = useLoad("/v1/evaluations", (signal) => get<Listed[] | { items: Listed[] }>("/v1/evaluations", signal));
  const items = Array.isArray(list.value) ? list.value : (list.value?.items ?? []);
  return (
    <>
      <div class="page-head">
        <h1>Evaluation</h1>
      </div>
      {list.error && <Failure error={list.error} again={list.again} />}
      {list.loading && !list.value && <Spinner label="Loading results" />}
      {list.value && !items.length && (
        <Empty title="No results yet">
          <code>agentforge bench</code> writes them; each experiment keeps its trials, tables and plots.
        </Empty>
      )}
      <ul class="run-list">
        {items.map((item) => (
          <li key={item.id} class="run-item">
            <a class="run-link" href={`#/evaluation/${encodeURIComponent(item.id)}`}>
              <span class="run-name">{visible(titleOf(item.title ?? item.name ?? item.id))}</span>
              <span class="quiet run-where">{facts(item)}</span>
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

function titleOf(name: string): string {
  return name.replace(/\.json$/, "").replaceAll("_", " ");
}

function facts(item: Listed): string {
  const plain = Object.entries(item).filter(
    ([name, value]) => !["id", "title", "name"].includes(name) && (typeof value === "string" || typeof value === "number"),
  );
  return visible(plain.slice(0, 5).map(([name, value]) => `${name.replaceAll("_", " ")} ${String(value).slice(0, 60)}`).join(" · "));
}

function Evaluation({ id }: { id: string }) {
  useTitle(id);
  const path = `/v1/evaluations/${encodeURIComponent(id)}`;
  const loaded = useLoad(path, (signal) => get<Record<string, Json>>(path, signal));
  const tables = useMemo(() => tablesOf(loaded.value ?? {}), [loaded.value]);
  if (!loaded.value) return loaded.error ? <Failure error={loaded.error} again={loaded.again} /> : <Spinner label="Loading results" />;
  return (
    <>
      <p class="crumbs">
        <a href="#/evaluation">Evaluation</a> <span aria-hidden="true">/</span> <code>{visible(id)}</code>
      </p>
      <h1 class="result-title">{visible(titleOf(String(loaded.value.title ?? loaded.value.name ?? id)))}</h1>
      <Facts document={loaded.value} />
      {tables.map(([name, rows]) => (
        <Table key={name} name={name} rows={rows} />
      ))}
    </>
  );
}

/** Single values of the document and of the objects directly in it: a summary, the machine, the date. */
function Facts({ document }: { document: { [name: string]: Json } }) {
  const groups: [string, { [name: string]: Json }][] = [["", document]];
  for (const [name, value] of Object.entries(document))
    if (value !== null && typeof value === "object" && !Array.isArray(value)) groups.push([name, value]);
  const facts = groups.flatMap(([group, values]) =>
    Object.entries(values)
      .filter(([, value]) => value !== null && typeof value !== "object")
      .map(([name, value]): [string, string] => [`${group} ${name}`.trim().replaceAll("_", " "), show(value as Cell)]),
  );
  if (!facts.length) return null;
  return (
    <section class="panel" aria-label="Facts">
      <dl class="fact-grid">
        {facts.slice(0, 40).map(([name, value]) => (
          <div key={name}>
            <dt>{visible(name)}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** Every list of flat records in the document, under its name: trials, conditions, tests. */
function tablesOf(document: { [name: string]: Json }, prefix = ""): [string, Trial[]][] {
  const tables: [string, Trial[]][] = [];
  for (const [name, value] of Object.entries(document)) {
    const title = prefix ? `${prefix}, ${name}` : name;
    if (Array.isArray(value)) {
      const rows = value.filter((entry): entry is { [name: string]: Json } => entry !== null && typeof entry === "object" && !Array.isArray(entry));
      if (rows.length) tables.push([title, rows.map(flat)]);
    } else if (value !== null && typeof value === "object") {
      tables.push(...tablesOf(value, title));
    }
  }
  return tables;
}

function flat(record: { [name: string]: Json }): Trial {
  const entries = Object.entries(record).map(([name, value]): [string, Cell] => [
    name,
    value !== null && typeof value === "object" ? shortly(value) : value,
  ]);
  return Object.fromEntries(entries);
}

function shortly(value: Json[] | { [name: string]: Json }): string {
  const plain = Array.isArray(value) && value.every((entry) => entry === null || typeof entry !== "object");
  return (plain ? value.join("; ") : JSON.stringify(value)).slice(0, 120);
}

const ROWS = 200;

function Table({ name, rows }: { name: string; rows: Trial[] }) {
  const columns = [...new Set(rows.slice(0, 50).flatMap((row) => Object.keys(row)))].slice(0, 12);
  const numeric = columns.filter((column) => rows.every((row) => row[column] === null || row[column] === undefined || typeof row[column] === "number"));
  const label = columns.find((column) => !numeric.includes(column));
  return (
    <section class="panel" aria-label={visible(name)}>
      <h2 class="panel-title">
        {visible(name.replaceAll("_", " "))} <span class="quiet">{plural(rows.length, "row")}</span>
      </h2>
      {rows.length > 1 && numeric.length > 0 && <Plots rows={rows} columns={numeric.slice(0, 3)} label={label} />}
      <div class="table-scroll" tabIndex={0} role="region" aria-label={`table of ${visible(name)}`}>
        <table class="plain-table">
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col" class={numeric.includes(column) ? "number" : ""}>
                  {visible(column.replaceAll("_", " "))}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, ROWS).map((row, index) => (
              <tr key={index}>
                {columns.map((column) => (
                  <td key={column} class={numeric.includes(column) ? "number" : ""}>
                    {show(row[column])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > ROWS && <p class="quiet pad">The first {ROWS} of {rows.length} rows.</p>}
    </section>
  );
}

function show(value: Cell | undefined): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(4);
  return visible(String(value).slice(0, 200));
}

function Plots({ rows, columns, label }: { rows: Trial[]; columns: string[]; label: string | undefined }) {
  return (
    <div class="plots">
      {columns.map((column) => (
        <Plot key={column} title={column} values={rows.map((row) => (typeof row[column] === "number" ? row[column] : null))} labels={rows.map((row) => String((label && row[label]) ?? ""))} />
      ))}
    </div>
  );
}

/** One number over the rows of a table; the table itself is what assistive technology reads. */
function Plot({ title, values, labels }: { title: string; values: (number | null)[]; labels: string[] }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const at = box.current;
    if (!at) return;
    const style = getComputedStyle(at);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, font: "11px Inter Variable" };
    const few = values.length <= 8;
    const plot = new uPlot(
      {
        width: Math.max(200, at.clientWidth),
        height: 180,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: false, range: [-0.6, values.length - 0.4] }, y: { range: (_, low, high) => [Math.min(0, low), high || 1] } },
        axes: [{ ...axis, size: few ? 30 : 8, grid: { show: false }, splits: () => (few ? values.map((_, index) => index) : []), values: (_, splits) => splits.map((at) => (labels[at] ?? "").slice(0, 14)) }, axis],
        series: [{}, { stroke: colour("--accent"), fill: colour("--accent-soft"), width: 1.5, ...(uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.6, 48] }) } : {}), points: { show: false } }],
      },
      [values.map((_, index) => index), values],
      at,
    );
    return () => plot.destroy();
  }, [values, labels]);
  return (
    <figure class="plot" aria-hidden="true">
      <figcaption>{visible(title.replaceAll("_", " "))}</figcaption>
      <div ref={box} />
    </figure>
  );
}
