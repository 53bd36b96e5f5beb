// One run, live: the event stream folded into a view, tokens into transcripts, and what the stream no longer holds
// (the answers of calls that ended before) from the record.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
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
  const current = useRef<RunView>(view);
  useEffect(() => {
    current.current = emptyView();
    const take = (events: Event[]): void => {
      current.current = takeAll(current.current, transcripts, events);
      setView(current.current);
    };
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

function takeAll(view: RunView, transcripts: Transcripts, events: Event[]): RunView {
  const tokens = new Map<number, string[]>();
  const pour = (call: number): void => {
    const texts = tokens.get(call);
    if (texts) transcripts.of(call).append(texts.join(""));
    tokens.delete(call);
  };
  for (const event of events) {
    if (event.type === "token") {
      const texts = tokens.get(event.call);
      if (texts) texts.push(event.text);
      else tokens.set(event.call, [event.text]);
      continue;
    }
    if (event.type === "stream_reset") {
      tokens.delete(event.call);
      transcripts.of(event.call).replace("");
    }
    view = fold(view, event);
  }
  for (const call of [...tokens.keys()]) pour(call);
  return view;
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
