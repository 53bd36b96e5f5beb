// The plan as steps, each with how far it is.

import { visible } from "../text";
import { agentClass } from "./lanes";
import { type RunView, activeNode } from "./state";
import type { Step } from "../types";

type Progress = "waiting" | "working" | "done";

/** A step's progress, as far as events tell it: calls name their step where a plan has several for the coder. */
export function progressOf(view: RunView, step: Step): Progress {
  if (view.end?.outcome === "verified" || view.settled.has(step.id)) return "done";
  const calls = view.calls.filter((call) => call.agent === step.agent);
  const index = (view.plan?.steps ?? []).filter((one) => one.agent === step.agent).indexOf(step);
  if (step.agent === "tester") {
    if (view.tests.accepted.length || view.tests.discarded.length) return "done";
    return calls.some((call) => call.finished === null) ? "working" : "waiting";
  }
  const call = calls.filter((one) => one.step === step.id).at(-1) ?? calls.filter((one) => !one.step)[index];
  if (call) return call.finished === null ? "working" : "done";
  return activeNode(view) === "code" && step.agent === "coder" && calls.length === index ? "working" : "waiting";
}

const WORDS: Record<Progress, string> = { waiting: "to do", working: "at work", done: "done" };

export function PlanPanel({ view }: { view: RunView }) {
  const plan = view.plan;
  if (!plan) return null;
  return (
    <section class="panel" aria-labelledby="plan-title">
      <h2 id="plan-title" class="panel-title">
        Plan
      </h2>
      <div class="pad">
        <p class="prose">{visible(plan.explanation)}</p>
        <ol class="steps">
          {plan.steps.map((step) => (
            <StepItem key={step.id} step={step} progress={progressOf(view, step)} />
          ))}
        </ol>
      </div>
    </section>
  );
}

function StepItem({ step, progress }: { step: Step; progress: Progress }) {
  return (
    <li class={`step ${progress} ${agentClass(step.agent)}`} data-progress={progress}>
      <span class="step-mark" aria-hidden="true" />
      <div>
        <p class="step-text">{visible(step.description)}</p>
        <p class="quiet step-meta">
          <span class="step-id">{step.id}</span> <span class="agent-name">{visible(step.agent)}</span>
          <span class="sr-only">, {WORDS[progress]}</span>
          {step.files.map((file) => (
            <code key={file}>{visible(file)}</code>
          ))}
        </p>
      </div>
    </li>
  );
}
