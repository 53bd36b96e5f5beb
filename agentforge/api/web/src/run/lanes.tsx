// A lane per agent: what it is writing, as it writes it.

import { useEffect, useRef } from "preact/hooks";
import { money, plural, visible } from "../text";
import type { Call, RunView } from "./state";
import type { Transcript, Transcripts } from "./transcript";

/** Characters of one call that the page holds; the record has the rest. */
const SHOWN = 24_000;
const ORDER = ["planner", "coder", "tester", "debugger", "critic", "reviewer", "optimizer", "explainer"];

/** The node of a workflow in which an agent is asked: its lane is there before its first word. */
const NODES: Record<string, string> = { plan: "planner", code: "coder", synthesize: "tester", debug: "debugger", critic: "critic" };

export function agentClass(agent: string): string {
  return `agent-${ORDER.includes(agent) ? agent : "other"}`;
}

export function Lanes({ view, nodes, transcripts }: { view: RunView; nodes: string[]; transcripts: Transcripts }) {
  const expected = nodes.map((node) => NODES[node]).filter((agent) => agent !== undefined && agent in view.models);
  const agents = [...new Set([...view.calls.map((call) => call.agent), ...(expected as string[])])].sort(byOrder);
  if (!agents.length) return null;
  return (
    <section class="panel lanes-panel" aria-labelledby="lanes-title">
      <h2 id="lanes-title" class="panel-title">
        Agents <span class="quiet">what each of them writes</span>
      </h2>
      <div class="lanes">
        {agents.map((agent) => (
          <Lane key={agent} agent={agent} calls={view.calls.filter((call) => call.agent === agent)} transcripts={transcripts} />
        ))}
      </div>
    </section>
  );
}

function byOrder(one: string, other: string): number {
  const rank = (agent: string): number => (ORDER.includes(agent) ? ORDER.indexOf(agent) : ORDER.length);
  return rank(one) - rank(other) || one.localeCompare(other);
}

function Lane({ agent, calls, transcripts }: { agent: string; calls: Call[]; transcripts: Transcripts }) {
  const busy = calls.some((call) => call.finished === null);
  const box = useRef<HTMLDivElement>(null);
  const follow = useRef(true);
  const stick = (): void => {
    if (follow.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  // A lane that gets narrower wraps its text anew.
  useEffect(() => {
    const watch = new ResizeObserver(stick);
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  // Only a person's scrolling decides whether the end is followed; the page scrolls by itself, too.
  const touched = useRef(0);
  const touch = (): void => {
    touched.current = performance.now();
  };
  const onScroll = (): void => {
    const at = box.current;
    if (at && performance.now() - touched.current < 800)
      follow.current = at.scrollHeight - at.scrollTop - at.clientHeight < 40;
  };
  const tokens = calls.reduce((sum, call) => sum + (call.tokens ?? 0), 0);
  const said = busy ? "writing" : tokens ? plural(tokens, "token") : calls.length ? plural(calls.length, "answer") : "waiting";
  return (
    <article class={`lane ${agentClass(agent)} ${busy ? "busy" : ""} ${calls.length ? "" : "unasked"}`} data-agent={agent} aria-label={`${agent}${busy ? ", writing" : ""}`}>
      <header class="lane-head">
        <span class="dot" aria-hidden="true" />
        <h3>{visible(agent)}</h3>
        <span class="quiet lane-count">{said}</span>
      </header>
      <div
        class="lane-body"
        ref={box}
        onScroll={onScroll}
        onWheel={touch}
        onPointerDown={touch}
        onTouchMove={touch}
        onKeyDown={touch}
        tabIndex={0}
        role="region"
        aria-label={`text of the ${agent}`}
      >
        {calls.map((call) => (
          <CallText key={call.id} call={call} transcript={transcripts.of(call.id)} stick={stick} several={calls.length > 1} />
        ))}
      </div>
    </article>
  );
}

function CallText(props: { call: Call; transcript: Transcript; stick: () => void; several: boolean }) {
  const { call, transcript, stick, several } = props;
  return (
    <div class="call">
      {several && (
        <p class="call-head quiet">
          answer {call.id}
          {call.cost !== null && ` · ${money(call.cost)}`}
          {call.resets > 0 && ` · started over ${plural(call.resets, "time")}`}
        </p>
      )}
      <StreamText transcript={transcript} stick={stick} writing={call.finished === null} />
    </div>
  );
}

function StreamText({ transcript, stick, writing }: { transcript: Transcript; stick: () => void; writing: boolean }) {
  const place = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const node = document.createTextNode("");
    place.current?.append(node);
    let shown = 0;
    const rewrite = (): void => {
      const cut = transcript.dropped + Math.max(0, transcript.text.length - SHOWN);
      const text = visible(transcript.text.slice(-SHOWN));
      node.data = cut ? `… ${cut.toLocaleString("en")} characters before this are in the record …\n${text}` : text;
      shown = node.length;
      stick();
    };
    const stop = transcript.watch((added) => {
      if (added === null || shown + added.length > 2 * SHOWN) return rewrite();
      const text = visible(added);
      node.appendData(text);
      shown += text.length;
      stick();
    });
    rewrite();
    return () => {
      stop();
      node.remove();
    };
  }, [transcript]);
  return (
    <>
      <pre class="stream" ref={place} dir="ltr" />
      {writing && <span class="caret" aria-hidden="true" />}
    </>
  );
}
