// The form that starts a run.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Problem, get, post } from "../api";
import { visible } from "../text";
import type { RunSummary } from "../types";
import { useLoad, useTitle } from "../ui/hooks";
import { Failure } from "../ui/parts";

interface WorkflowItem {
  name: string;
  description?: string;
  needs_model?: boolean;
}

export function NewRunPage() {
  useTitle("New run");
  const workflows = useLoad("/v1/workflows", (signal) => get<WorkflowItem[] | { items: WorkflowItem[] }>("/v1/workflows", signal));
  const [workflow, setWorkflow] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [sending, setSending] = useState(false);
  const known = Array.isArray(workflows.value) ? workflows.value : (workflows.value?.items ?? []);
  const fields = error instanceof Problem ? error.fields : {};
  const start = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setSending(true);
    setError(null);
    try {
      const run = await post<RunSummary>("/v1/runs", requestOf(new FormData(event.currentTarget as HTMLFormElement)));
      location.hash = `#/runs/${encodeURIComponent(run.id)}`;
    } catch (problem) {
      setError(problem as Error);
      setSending(false);
    }
  };
  return (
    <form class="form" onSubmit={(event) => void start(event)} aria-labelledby="new-title">
      <div class="page-head">
        <h1 id="new-title">New run</h1>
      </div>
      <p class="quiet lead">A patch comes back only after it was executed: the tests that show the bug must go from failing to passing, and nothing that passed may fail.</p>
      <div class="panel pad form-panel">
        <Field name="repository" label="Repository" help="A folder that the server may read, or an https address." error={fields.repository}>
          <input class="field" id="repository" name="repository" required autoComplete="off" spellcheck={false} aria-describedby="repository-help" />
        </Field>
        <Field name="issue" label="Issue" help="What is wrong, in words; a traceback or a failing example helps." error={fields.issue}>
          <textarea class="field" id="issue" name="issue" rows={8} required aria-describedby="issue-help" />
        </Field>
        <div class="form-row">
          <Field name="base" label="Base revision" help="Empty: the current one." error={fields.base}>
            <input class="field" id="base" name="base" autoComplete="off" spellcheck={false} aria-describedby="base-help" />
          </Field>
          <Field name="workflow" label="Workflow" help={describe(known, workflow)} error={fields.workflow}>
            <select class="field" id="workflow" name="workflow" value={workflow} onChange={(event) => setWorkflow(event.currentTarget.value)} aria-describedby="workflow-help">
              <option value="">auto</option>
              {known.map((one) => (
                <option key={one.name} value={one.name}>
                  {visible(one.name)}
                </option>
              ))}
            </select>
          </Field>
        </div>
      </div>
      <details class="panel form-panel more-options">
        <summary>Tests, model and limits</summary>
        <div class="pad">
          <Field name="target_tests" label="Target tests" help="Ids of failing tests that must pass, one a line." error={fields.target_tests}>
            <textarea class="field mono" id="target_tests" name="target_tests" rows={3} spellcheck={false} aria-describedby="target_tests-help" />
          </Field>
          <div class="form-row">
            <Field name="test_command" label="Test command" help="Empty: found by itself." error={fields.test_command}>
              <input class="field mono" id="test_command" name="test_command" autoComplete="off" spellcheck={false} aria-describedby="test_command-help" />
            </Field>
            <Field name="model" label="Model" help="Empty: the server's." error={fields.model}>
              <input class="field" id="model" name="model" autoComplete="off" spellcheck={false} aria-describedby="model-help" />
            </Field>
          </div>
          <fieldset class="form-row limits">
            <legend>Limits, capped by the server's own</legend>
            <Limit name="time_s" label="Seconds" error={fields.time_s} />
            <Limit name="tokens" label="Tokens" error={fields.tokens} />
            <Limit name="cost_usd" label="US dollars" step="any" error={fields.cost_usd} />
            <Limit name="retries" label="Debug rounds" error={fields.retries} />
          </fieldset>
        </div>
      </details>
      {error && <Failure error={error} />}
      <div class="actions">
        <button type="submit" class="button primary" disabled={sending}>
          {sending ? "Starting" : "Start the run"}
        </button>
      </div>
    </form>
  );
}

function describe(known: WorkflowItem[], name: string): string {
  return known.find((one) => one.name === name)?.description ?? "auto: with a model the whole team, without one a search over edits";
}

/** The request of the form; what was left empty is not sent. */
export function requestOf(form: FormData): Record<string, unknown> {
  const text = (name: string): string | undefined => String(form.get(name) ?? "").trim() || undefined;
  const number = (name: string): number | undefined => (text(name) === undefined ? undefined : Number(text(name)));
  const targets = (text("target_tests") ?? "").split("\n").map((line) => line.trim()).filter(Boolean);
  const limits = { time_s: number("time_s"), tokens: number("tokens"), cost_usd: number("cost_usd"), retries: number("retries") };
  const limited = Object.values(limits).some((value) => value !== undefined);
  return {
    repository: text("repository"),
    issue: String(form.get("issue") ?? ""),
    base: text("base"),
    workflow: text("workflow"),
    test_command: text("test_command"),
    model: text("model"),
    ...(targets.length ? { target_tests: targets } : {}),
    ...(limited ? { limits } : {}),
  };
}

function Field(props: { name: string; label: string; help?: string; error: string | undefined; children: ComponentChildren }) {
  return (
    <div class={`form-field ${props.error ? "wrong" : ""}`}>
      <label for={props.name}>{props.label}</label>
      {props.children}
      <p class="help" id={`${props.name}-help`}>
        {props.error ? visible(props.error) : visible(props.help ?? "")}
      </p>
    </div>
  );
}

function Limit(props: { name: string; label: string; step?: string; error: string | undefined }) {
  return (
    <Field name={props.name} label={props.label} error={props.error}>
      <input class="field" id={props.name} name={props.name} type="number" min="0" step={props.step ?? "1"} inputMode="decimal" aria-describedby={`${props.name}-help`} />
    </Field>
  );
}
