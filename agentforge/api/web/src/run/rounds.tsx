// What the gate decided, round by round, in words.

import { plural, visible } from "../text";
import type { GateReason } from "../types";
import { Pill } from "../ui/parts";
import type { Candidate, RunView } from "./state";

const KINDS: Record<string, (count: number) => string> = {
  target_not_passing: (n) => `${plural(n, "target test")} still ${n === 1 ? "does" : "do"} not pass`,
  broken: (n) => `${plural(n, "test")} that passed on the base ${n === 1 ? "fails" : "fail"} now`,
  disappeared: (n) => `${plural(n, "test")} of the base ${n === 1 ? "is" : "are"} gone`,
  tampered: () => "the test framework was changed while the tests ran",
  no_report: () => "the tests gave no clean report",
  no_target: () => "there is no target test that could prove the repair",
  not_seen_failing: (n) => `${plural(n, "target test")} ${n === 1 ? "was" : "were"} not seen to fail on the base`,
  veto: () => "the critic said no",
};

export function RoundsPanel({ view, selected, pick }: { view: RunView; selected: string; pick: (id: string) => void }) {
  if (!view.candidates.length) return null;
  return (
    <section class="panel" aria-labelledby="gate-title">
      <h2 id="gate-title" class="panel-title">
        Gate <span class="quiet">{plural(view.candidates.length, "candidate")}, judged by tests alone</span>
      </h2>
      <ol class="rounds">
        {view.candidates.map((one) => (
          <Round key={one.id} one={one} testing={view.testing?.subject === one.id} selected={one.id === selected} pick={pick} />
        ))}
      </ol>
      <CriticNote view={view} />
    </section>
  );
}

function Round(props: { one: Candidate; testing: boolean; selected: boolean; pick: (id: string) => void }) {
  const { one, testing, selected, pick } = props;
  const verdict = one.decision?.verdict;
  return (
    <li class={`round ${verdict ?? "open"}`}>
      <button type="button" class="round-head" aria-pressed={selected} onClick={() => pick(one.id)}>
        <strong>{visible(one.id)}</strong>
        <span class="quiet">
          {one.round ? `debug round ${one.round}` : "first answer"}, by the {visible(one.origin)}
        </span>
        <Pill state={verdict ?? (testing ? "running" : "waiting")} />
      </button>
      {one.decision && (
        <ul class="reasons">
          {one.decision.fail_to_pass.length > 0 && verdict !== "refused" && (
            <li class="good">{plural(one.decision.fail_to_pass.length, "target test")} failed before, pass now</li>
          )}
          {one.decision.pass_to_pass.length > 0 && verdict !== "refused" && (
            <li class="good">{plural(one.decision.pass_to_pass.length, "test")} passed before and still pass</li>
          )}
          {grouped(one.decision.reasons).map(([kind, reasons]) => (
            <ReasonGroup key={kind} kind={kind} reasons={reasons} />
          ))}
        </ul>
      )}
    </li>
  );
}

function grouped(reasons: GateReason[]): [string, GateReason[]][] {
  const groups = new Map<string, GateReason[]>();
  for (const reason of reasons) groups.set(reason.kind, [...(groups.get(reason.kind) ?? []), reason]);
  return [...groups];
}

function ReasonGroup({ kind, reasons }: { kind: string; reasons: GateReason[] }) {
  const said = KINDS[kind]?.(reasons.length) ?? visible(reasons[0]?.text || kind.replaceAll("_", " "));
  const named = reasons.filter((reason) => reason.test_id || (reason.text && !KINDS[kind]));
  if (!named.length) return <li class="bad">{said}{reasons[0]?.text ? `: ${visible(reasons[0].text)}` : ""}</li>;
  return (
    <li class="bad">
      <details>
        <summary>{said}</summary>
        <ul class="ids">
          {named.slice(0, 100).map((reason, index) => (
            <li key={index}>
              <code>{visible(reason.test_id)}</code> <span class="quiet">{visible(reason.text)}</span>
            </li>
          ))}
          {named.length > 100 && <li class="quiet">and {named.length - 100} more</li>}
        </ul>
      </details>
    </li>
  );
}

function CriticNote({ view }: { view: RunView }) {
  if (!view.critic) return null;
  return (
    <div class="critic">
      <p>
        <strong>Critic</strong> <Pill state={view.critic.verdict} />{" "}
        <span class="quiet">{view.critic.veto ? "held the patch back" : "advice only"}</span>
      </p>
      <ul class="reasons">
        {view.critic.reasons.map((reason, index) => (
          <li key={index}>{visible(reason)}</li>
        ))}
      </ul>
    </div>
  );
}
