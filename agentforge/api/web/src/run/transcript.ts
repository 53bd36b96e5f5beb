// The streamed text of every model call. Kept outside of the page's state: a token costs one append to a text node,
// not a rendering.

const KEPT = 400_000;

type Watcher = (added: string | null) => void;

/** The text of one call; beyond a limit only its tail is kept. */
export class Transcript {
  text = "";
  dropped = 0;
  private epoch = "";
  private watchers = new Set<Watcher>();

  /** Add what was streamed. Another epoch is another life of the server, in which the call is made anew. */
  append(text: string, epoch: string): void {
    if (epoch !== this.epoch && this.text) this.replace("");
    this.epoch = epoch;
    this.text += text;
    if (this.text.length > 2 * KEPT) {
      this.dropped += this.text.length - KEPT;
      this.text = this.text.slice(-KEPT);
      this.tell(null);
    } else {
      this.tell(text);
    }
  }

  /** Start over: what was streamed so far is void. */
  replace(text: string): void {
    this.text = text.slice(-KEPT);
    this.dropped = text.length - this.text.length;
    this.tell(null);
  }

  watch(watcher: Watcher): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  private tell(added: string | null): void {
    for (const watcher of this.watchers) watcher(added);
  }
}

export class Transcripts {
  private readonly calls = new Map<number, Transcript>();

  of(call: number): Transcript {
    let found = this.calls.get(call);
    if (!found) this.calls.set(call, (found = new Transcript()));
    return found;
  }
}
