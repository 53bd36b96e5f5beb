// The shapes of the API and of the events, as far as the client reads them. Every text in them is from others.

export type Status = "queued" | "running" | "finished" | "cancelled" | "interrupted" | "failed";

export interface Spend {
  calls: number;
  prompt_tokens?: number;
  completion_tokens?: number;
  tokens?: number;
  cost_usd: number | null;
  unpriced_calls?: number;
}

export interface RunSummary {
  id: string;
  status: Status;
  outcome: string | null;
  exit_code: number | null;
  repository: string;
  base: string | null;
  issue_title: string;
  workflow: string;
  created: string;
  started: string | null;
  finished: string | null;
  spend: Spend | null;
  round: number | null;
  node: string | null;
  error?: string;
}

export interface Page<Item> {
  items: Item[];
  next: string | null;
}

export interface Step {
  id: string;
  agent: string;
  description: string;
  files: string[];
  symbols: string[];
  depends_on: string[];
}

export interface Plan {
  explanation: string;
  steps: Step[];
  fallback: boolean;
}

export interface TestFailure {
  exception: string;
  message: string;
  traceback: string;
}

export interface TestReport {
  outcomes: Record<string, string>;
  failures: Record<string, TestFailure>;
  collected: number;
  exit_code: number | null;
  duration_s: number;
  cause: string;
  cause_detail: string;
  output: string;
  log_path: string;
  command: string[];
  scope: string;
}

export interface GateReason {
  kind: string;
  test_id: string;
  text: string;
}

export interface GateDecision {
  verdict: "verified" | "unverified" | "refused";
  reasons: GateReason[];
  fail_to_pass: string[];
  pass_to_pass: string[];
  scope: string;
}

export interface GeneratedTest {
  path: string;
  code: string;
  test_ids: string[];
  reason: string;
}

interface Base {
  seq: number;
  time: string | null;
  /** Which life of the server a token comes from; put in from the event's id. */
  epoch?: string;
}

export interface Responsibility {
  id: string;
  goal: string;
  leaf: boolean;
  depends_on: string[];
  files: string[];
  symbols: string[];
}

interface Locus {
  node: string;
  kind: "node" | "branch" | "none";
  rule: string;
  confidence: string;
}

export type Event = Base &
  (
    | {
        type: "run_started";
        run_id: string;
        workflow: string;
        repository: string;
        base: string;
        issue_title: string;
        models: Record<string, string>;
      }
    | { type: "run_resumed"; after: number }
    | { type: "stage_started"; stage: string; workflow: string }
    | { type: "stage_finished"; stage: string; solved: boolean; reason: string }
    | { type: "responsibilities_committed"; graph: { explanation: string; nodes: Responsibility[]; fallback: boolean } }
    | { type: "node_verified"; responsibility: string; evidence: { passed: boolean }[] }
    | { type: "localized"; locus: Locus }
    | { type: "transaction_closed"; transaction: { number: number; locus: Locus; accepted: boolean; reason: string } }
    | { type: "fallback_closed"; fallback: { accepted: boolean; reason: string } }
    | { type: "insight_learned"; lesson: string }
    | { type: "node_started"; node: string; round: number }
    | { type: "node_finished"; node: string; round: number }
    | { type: "model_call_started"; call: number; agent: string; model: string; step?: string }
    | { type: "token"; call: number; agent: string; text: string }
    | { type: "stream_reset"; call: number; agent: string; reason: string }
    | {
        type: "model_call_finished";
        call: number;
        agent: string;
        model: string;
        finish_reason: string;
        usage: { prompt_tokens: number | null; completion_tokens: number | null };
        cost_usd: number | null;
        spend: Spend;
      }
    | { type: "context_retrieved"; symbols: [string, string, number, number][]; episodes: string[] }
    | { type: "plan_made"; plan: Plan }
    | {
        type: "patch_proposed";
        candidate: string;
        origin: string;
        round: number;
        diff: string;
        files: string[];
        added: number;
        removed: number;
      }
    | { type: "patch_refused"; origin: string; round: number; reason: string; text: string }
    | { type: "tests_synthesized"; accepted: GeneratedTest[]; discarded: [string, string][] }
    | { type: "tests_started"; subject: string; scope: string; targets: number }
    | { type: "tests_finished"; subject: string; report: TestReport }
    | { type: "gate_decided"; candidate: string; decision: GateDecision }
    | { type: "deadlock_detected"; signature: string; strategy: string }
    | { type: "critic_decided"; verdict: string; reasons: string[]; veto: boolean }
    | { type: "search_progress"; stage: string; tried: number; plausible: number; total: number | null; text: string }
    | { type: "facts_found"; facts: { suspects: { path: string; line: number; code: string }[]; reasons: string[] } }
    | { type: "explored"; candidate: string; failing: string[]; tried: number; plausible: number; found: string }
    | { type: "explained"; text: string }
    | { type: "episode_stored"; episode: string }
    | { type: "notice"; level: "info" | "warning" | "error"; text: string; hint: string }
    | { type: "run_status"; status: Status; error?: string }
    | { type: "run_finished"; outcome: string; exit_code: number; summary: string; spend: Spend }
  );

export interface FailedAttempt {
  patch: string;
  reason: string;
  tests: string[];
}

export interface Episode {
  id: string;
  repository: string;
  issue: string;
  patch: string;
  summary: string;
  tests: string[];
  workflow: string;
  created: string;
  score: number;
  attempts: FailedAttempt[];
  retracted: string;
}

export interface Insight {
  id: string;
  lesson: string;
  failure: string;
  edit: string;
  episodes: string[];
  helped: number;
  misled: number;
  weight: number;
  created: string;
}

export interface FoundSymbol {
  path: string;
  name: string;
  start_line: number;
  end_line: number;
  score: number;
  why: string[];
}

export interface FoundFile {
  path: string;
  score: number;
  why: Record<string, number>;
}
