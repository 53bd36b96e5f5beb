// One run, live: the event stream folded into a view, tokens into transcripts, and what the stream no longer holds
// (the answers of calls that ended before) from the record.

import { useEffect, useMemo, useState } from "preact/hooks";
import { get } from "../api";
import { RunStream, type StreamState } from "../stream";
import type { Event, RunSummary } from "../types";
import { type RunView, emptyView, fold } from "./state";
import { Transcripts } from "./transcript";

export interface LiveRun {
  view: RunView;
  transcripts: Transcripts;
  state: StreamState;
}

interface RecordedCall {
  record: { call: number; completion?: { text?: string } | null };
}

export function useRun(id: string, turn: number): LiveRun {
  const transcripts = useMemo(() => new Transcripts(), [id, turn]);
  const [view, setView] = useState<RunView>(emptyView);
  const [state, setState] = useState<StreamState>("connecting");
  useEffect(() => {
    const story = new Story(transcripts);
    const take = (events: Event[]): void => setView(story.take(events));
    const stream = new RunStream(id, { onEvents: take, onState: setState, isOver: () => isOver(id) });
    return () => stream.close();
  }, [id, turn, transcripts]);
  useAnswers(id, view, transcripts);
  return { view, transcripts, state };
}

async function isOver(id: string): Promise<boolean> {
  const { status } = await get<RunSummary>(`/v1/runs/${encodeURIComponent(id)}`);
  return status !== "running" && status !== "queued";
}

/** The events so far: tokens go to the transcripts, the others make the view. */
class Story {
  private view = emptyView();
  private events: Event[] = [];

  constructor(private readonly transcripts: Transcripts) {}

  take(events: Event[]): RunView {
    const tokens = new Map<number, { epoch: string; texts: string[] }>();
    for (const event of events) {
      if (event.type === "token") {
        const waiting = tokens.get(event.call);
        if (waiting && waiting.epoch === (event.epoch ?? "")) waiting.texts.push(event.text);
        else {
          this.pour(tokens, event.call);
          tokens.set(event.call, { epoch: event.epoch ?? "", texts: [event.text] });
        }
        continue;
      }
      if (event.type === "stream_reset") {
        tokens.delete(event.call);
        this.transcripts.of(event.call).replace("");
      }
      this.add(event);
    }
    for (const call of [...tokens.keys()]) this.pour(tokens, call);
    return this.view;
  }

  private pour(tokens: Map<number, { epoch: string; texts: string[] }>, call: number): void {
    const waiting = tokens.get(call);
    if (waiting) this.transcripts.of(call).append(waiting.texts.join(""), waiting.epoch);
    tokens.delete(call);
  }

  private add(event: Event): void {
    if (event.type === "run_resumed") this.goBack(event.after);
    this.events.push(event);
    this.view = fold(this.view, event);
  }

  /** What was said after event `after` belongs to an ending that does not hold any more. */
  private goBack(after: number): void {
    const before = this.view.calls;
    this.events = this.events.filter((event) => event.seq <= after);
    this.view = this.events.reduce(fold, emptyView());
    const answered = new Set(this.view.calls.filter((call) => call.finished !== null).map((call) => call.id));
    for (const call of before) if (!answered.has(call.id)) this.transcripts.of(call.id).replace("");
  }
}

/** Fill the transcripts of finished calls whose tokens are gone, once per number of finished calls. */
function useAnswers(id: string, view: RunView, transcripts: Transcripts): void {
  const missing = view.calls.filter((call) => call.finished !== null && !transcripts.of(call.id).text).length;
  useEffect(() => {
    if (!missing) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      get<RecordedCall[]>(`/v1/runs/${encodeURIComponent(id)}/calls`, abort.signal)
        .then((calls) => fill(transcripts, calls))
        .catch(() => undefined);
    }, 200);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [id, missing, transcripts]);
}

function fill(transcripts: Transcripts, calls: RecordedCall[]): void {
  for (const { record } of calls) {
    const transcript = transcripts.of(record.call);
    const text = record.completion?.text;
    if (text && !transcript.text) transcript.replace(text);
  }
}
