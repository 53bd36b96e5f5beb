// The test matrix: every test id with its outcome on the base and on each candidate.

import type { Candidate, Results, RunView } from "./state";

export type Change = "fixed" | "broken" | "failing" | "kept" | "new" | "waiting";

export interface TestRow {
  id: string;
  base: string | null;
  outcomes: (string | null)[];
  change: Change;
  target: boolean;
}

const GOOD = new Set(["passed", "xfailed"]);
const ORDER: Change[] = ["broken", "fixed", "failing", "new", "kept", "waiting"];

export function matrixOf(view: RunView, selected: Candidate | undefined): TestRow[] {
  const ids = new Set(view.baseline.outcomes.keys());
  for (const one of view.candidates) for (const id of one.results.outcomes.keys()) ids.add(id);
  const targets = new Set(view.tests.accepted.flatMap((test) => test.test_ids));
  for (const id of selected?.decision?.fail_to_pass ?? []) targets.add(id);
  for (const reason of selected?.decision?.reasons ?? []) if (reason.kind === "target_not_passing") targets.add(reason.test_id);
  const rows = [...ids].map((id) => rowOf(id, view, selected, targets));
  return rows.sort((a, b) => ORDER.indexOf(a.change) - ORDER.indexOf(b.change) || a.id.localeCompare(b.id));
}

function rowOf(id: string, view: RunView, selected: Candidate | undefined, targets: Set<string>): TestRow {
  const base = view.baseline.outcomes.get(id) ?? null;
  return {
    id,
    base,
    outcomes: view.candidates.map((one) => one.results.outcomes.get(id) ?? null),
    change: changeOf(base, selected?.results, id),
    target: targets.has(id),
  };
}

function changeOf(base: string | null, results: Results | undefined, id: string): Change {
  const now = results?.outcomes.get(id) ?? null;
  if (!results?.reports.length) return base !== null && !GOOD.has(base) && base !== "skipped" ? "failing" : "waiting";
  // Candidates run the related tests first; what did not run yet is not gone. The gate names what is.
  if (now === null) return "waiting";
  if (base === null) return GOOD.has(now) ? "new" : "failing";
  if (GOOD.has(base)) return GOOD.has(now) ? "kept" : "broken";
  if (GOOD.has(now)) return "fixed";
  return now === "skipped" && base === "skipped" ? "kept" : "failing";
}

export function countBy(rows: TestRow[]): Map<Change, number> {
  const counts = new Map<Change, number>();
  for (const row of rows) counts.set(row.change, (counts.get(row.change) ?? 0) + 1);
  return counts;
}
