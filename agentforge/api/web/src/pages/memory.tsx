// What past repairs taught: verified fixes, and the lessons drawn from several of them.

import { useState } from "preact/hooks";
import { get, query, remove } from "../api";
import { DiffView } from "../run/diff";
import { ago, plural, shortRepository, visible } from "../text";
import type { Episode, Insight } from "../types";
import { useDebounced, useLoad, useTitle } from "../ui/hooks";
import { Choice, Empty, Failure, IconButton, Spinner } from "../ui/parts";

type Item = Partial<Episode> & Partial<Insight> & { id: string };

interface Stats {
  episodes?: number;
  insights?: number;
  repositories?: Record<string, number>;
}

export function MemoryPage() {
  useTitle("Memory");
  const [kind, setKind] = useState("episode");
  const [text, setText] = useState("");
  const q = useDebounced(text);
  const path = `/v1/memory/episodes${query({ q, kind })}`;
  const found = useLoad(path, (signal) => get<{ items: Item[] }>(path, signal));
  const stats = useLoad("/v1/memory/stats", (signal) => get<Stats>("/v1/memory/stats", signal));
  const forget = async (id: string): Promise<void> => {
    await remove(`/v1/memory/episodes/${encodeURIComponent(id)}`);
    found.again();
    stats.again();
  };
  return (
    <>
      <div class="page-head">
        <h1>Memory</h1>
        {stats.value?.episodes !== undefined && <p class="quiet">{plural(stats.value.episodes, "episode")} kept</p>}
      </div>
      <div class="toolbar page-toolbar">
        <Choice label="what to show" value={kind} pick={setKind} options={[["episode", "Episodes"], ["insight", "Insights"]]} />
        <input
          type="search"
          class="field grow"
          placeholder="Find similar issues"
          aria-label="Find similar issues"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </div>
      {found.error && <Failure error={found.error} again={found.again} />}
      {!found.value && found.loading && <Spinner label="Searching the memory" />}
      {found.value && !found.value.items.length && (
        <Empty title={q ? "Nothing similar is remembered" : "Nothing is remembered yet"}>
          {kind === "episode" ? "Every verified repair is kept here, with what was tried before it." : "Insights come from several episodes that agree."}
        </Empty>
      )}
      <ul class="cards">
        {found.value?.items.map((item) => (
          <li key={item.id} class="panel card">
            {kind === "insight" ? <InsightCard item={item} /> : <EpisodeCard item={item} forget={forget} />}
          </li>
        ))}
      </ul>
    </>
  );
}

function EpisodeCard({ item, forget }: { item: Item; forget: (id: string) => Promise<void> }) {
  const [sure, setSure] = useState(false);
  const [title, ...rest] = (item.issue ?? "").trim().split("\n");
  const attempts = item.attempts ?? [];
  return (
    <>
      <header class="card-head">
        <h2>{visible(title || item.id)}</h2>
        {Boolean(item.score) && <Score value={item.score ?? 0} />}
      </header>
      <p class="quiet meta">
        <span>{visible(shortRepository(item.repository ?? ""))}</span>
        <code>{visible(item.id)}</code>
        {item.workflow && <span>{visible(item.workflow)}</span>}
        <span>{ago(item.created ?? null)}</span>
        {item.retracted && <span class="tone-warn">not believed any more: {visible(item.retracted)}</span>}
      </p>
      {rest.join("").trim() && <p class="prose preserve clamp">{visible(rest.join("\n").trim())}</p>}
      {item.summary && <p class="prose">{visible(item.summary)}</p>}
      {item.patch && (
        <details>
          <summary>The fix</summary>
          <DiffView diff={item.patch} />
        </details>
      )}
      {attempts.length > 0 && (
        <details>
          <summary>{plural(attempts.length, "attempt")} refuted before it</summary>
          {attempts.map((attempt, index) => (
            <div key={index} class="attempt">
              <p>{visible(attempt.reason)}</p>
              <DiffView diff={attempt.patch} />
            </div>
          ))}
        </details>
      )}
      <div class="card-actions">
        {sure ? (
          <>
            <IconButton icon="trash" label="Forget it for good" kind="danger" onClick={() => forget(item.id)} />
            <button type="button" class="button" onClick={() => setSure(false)}>
              Keep it
            </button>
          </>
        ) : (
          <IconButton icon="trash" label="Forget" onClick={() => setSure(true)} />
        )}
      </div>
    </>
  );
}

function InsightCard({ item }: { item: Item }) {
  return (
    <>
      <header class="card-head">
        <h2>{visible(item.lesson ?? item.id)}</h2>
        <Score value={item.weight ?? 0} word="trust" />
      </header>
      <p class="quiet meta">
        {item.failure && <span>after {visible(item.failure)}</span>}
        {item.edit && <span>by {visible(item.edit)}</span>}
        <span>from {plural(item.episodes?.length ?? 0, "episode")}</span>
        <span>
          helped {item.helped ?? 0}, misled {item.misled ?? 0}
        </span>
      </p>
    </>
  );
}

export function Score({ value, word = "similarity" }: { value: number; word?: string }) {
  const percent = Math.round(100 * Math.max(0, Math.min(1, value)));
  return (
    <span class="score quiet">
      <meter min={0} max={100} value={percent} aria-label={word} /> {value.toFixed(2)}
    </span>
  );
}
