// The event stream of one run. A ticket opens one stream: when that breaks, a new one with a new ticket continues
// behind the last event that was seen.

import { noteSilence, online, query, ticket } from "./api";
import type { Event } from "./types";

const TYPES = [
  "run_started", "run_resumed", "stage_started", "stage_finished", "node_started", "node_finished",
  "model_call_started", "token", "stream_reset", "model_call_finished", "context_retrieved", "plan_made",
  "responsibilities_committed", "node_verified", "localized", "transaction_closed", "fallback_closed",
  "patch_proposed", "patch_refused", "tests_synthesized", "tests_started", "tests_finished", "gate_decided",
  "deadlock_detected", "critic_decided", "search_progress", "facts_found", "explored", "explained", "episode_stored", "insight_learned",
  "notice", "run_finished", "run_status",
] as const; // prettier-ignore

export type StreamState = "connecting" | "live" | "waiting" | "ended";

export interface StreamOptions {
  onEvents: (events: Event[]) => void;
  onState: (state: StreamState) => void;
  /** Whether the server says that nothing will follow. */
  isOver: () => Promise<boolean>;
}

const OVER = ["finished", "cancelled", "interrupted", "failed"];

export class RunStream {
  private source: EventSource | null = null;
  private last = "";
  private waiting: Event[] = [];
  private frame = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private closed = false;
  private failures = 0;
  private finished = false;

  constructor(
    private readonly run: string,
    private readonly options: StreamOptions,
  ) {
    void this.open();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
    cancelAnimationFrame(this.frame);
    this.source?.close();
  }

  private async open(): Promise<void> {
    if (this.closed) return;
    this.options.onState("connecting");
    try {
      const pass = await ticket();
      if (this.closed) return;
      const parameters = query({ after: this.last, ticket: pass });
      this.listen(new EventSource(`/v1/runs/${encodeURIComponent(this.run)}/events${parameters}`));
    } catch {
      this.later();
    }
  }

  private listen(source: EventSource): void {
    this.source = source;
    source.onopen = () => {
      this.failures = 0;
      online.value = true;
      this.options.onState("live");
    };
    source.onerror = () => {
      if (this.closed || source !== this.source) return;
      // Never left to EventSource itself: its reconnect would use a ticket that was used.
      source.close();
      void this.ended();
    };
    for (const type of TYPES) source.addEventListener(type, (message) => this.take(message));
    source.addEventListener("message", (message) => this.take(message));
  }

  /** The server closed the stream: because the run is over, or by mishap. */
  private async ended(): Promise<void> {
    if (this.finished || (await this.options.isOver().catch(() => false))) return this.end();
    if (this.closed) return;
    this.options.onState("waiting");
    this.later();
  }

  private later(): void {
    clearTimeout(this.retry);
    if (this.closed) return;
    this.failures += 1;
    if (this.failures > 1) noteSilence();
    this.retry = setTimeout(() => void this.open(), Math.min(2000, 250 * 2 ** this.failures));
  }

  /** Collect until the next frame: a burst of tokens is one update of the page. */
  private take(message: MessageEvent<string>): void {
    let event: Event;
    try {
      event = JSON.parse(message.data) as Event;
    } catch {
      return;
    }
    if (message.lastEventId) {
      if (message.lastEventId === this.last) return;
      this.last = message.lastEventId;
      // A place is "seq" or "seq.part.epoch".
      event.epoch = this.last.split(".")[2] ?? "";
    }
    this.waiting.push(event);
    // A run that was resumed goes on behind an end.
    this.finished = event.type === "run_finished" || (this.finished && event.type === "run_status");
    if (event.type === "run_status" && OVER.includes(event.status)) this.end();
    // A hidden page gets no frames; its events are not to pile up.
    else if (document.hidden) this.flush();
    else if (!this.frame) this.frame = requestAnimationFrame(() => this.flush());
  }

  private flush(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const events = this.waiting;
    this.waiting = [];
    if (events.length) this.options.onEvents(events);
  }

  private end(): void {
    this.flush();
    this.close();
    this.options.onState("ended");
  }
}
