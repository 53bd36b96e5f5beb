// The index of a repository: its symbols, found by what is asked.

import { useState } from "preact/hooks";
import { get, query } from "../api";
import { visible } from "../text";
import type { FoundFile, FoundSymbol } from "../types";
import { useDebounced, useLoad, useTitle } from "../ui/hooks";
import { Empty, Failure, Spinner } from "../ui/parts";
import { Score } from "./memory";

interface Hits {
  files: FoundFile[];
  symbols: FoundSymbol[];
}

export function SearchPage() {
  useTitle("Index");
  const [repository, setRepository] = useState("");
  const [text, setText] = useState("");
  const where = useDebounced(repository.trim(), 500);
  const q = useDebounced(text.trim(), 350);
  const path = where && q ? `/v1/index/search${query({ repository: where, q })}` : null;
  const found = useLoad(path, (signal) => get<Hits>(path ?? "", signal));
  const symbols = (path && found.value?.symbols) || [];
  const files = (path && found.value?.files) || [];
  return (
    <>
      <div class="page-head">
        <h1>Index</h1>
      </div>
      <div class="toolbar page-toolbar">
        <label class="stacked grow">
          Repository
          <input class="field" autoComplete="off" spellcheck={false} value={repository} onInput={(event) => setRepository(event.currentTarget.value)} />
        </label>
        <label class="stacked grow2">
          What do you look for?
          <input class="field" type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
      </div>
      {found.error && path && <Failure error={found.error} again={found.again} />}
      {path && found.loading && <Spinner label="Searching the index" />}
      {!path && <Empty title="Ask for a symbol, an error or a behaviour">The index holds the functions and classes of a repository with their exact lines.</Empty>}
      {path && found.value && !found.loading && !symbols.length && !files.length && <Empty title="Nothing is like that" />}
      <Found title="Symbols" items={symbols.map((one) => ({ ...one, place: `${one.path}:${one.start_line}-${one.end_line}` }))} />
      <Found title="Files" items={files.map((one) => ({ name: one.path, place: "", score: one.score, why: Object.keys(one.why) }))} />
    </>
  );
}

interface Item {
  name: string;
  place: string;
  score: number;
  why: string[];
}

function Found({ title, items }: { title: string; items: Item[] }) {
  if (!items.length) return null;
  const most = Math.max(...items.map((item) => item.score)) || 1;
  return (
    <section class="panel" aria-labelledby={`found-${title}`}>
      <h2 class="panel-title" id={`found-${title}`}>
        {title}
      </h2>
      <ul class="hits">
        {items.map((item, index) => (
          <li key={index} class="hit">
            <span class="path">
              <b>{visible(item.name)}</b> <span class="quiet">{visible(item.place)}</span>
            </span>
            <span class="why-tags">
              {item.why.slice(0, 3).map((why) => (
                <span key={why} class="tag" title={item.why.map(visible).join("\n")}>
                  {visible(why.replaceAll("_", " ").replace(/ -?[\d.]+$/, ""))}
                </span>
              ))}
            </span>
            <Score value={item.score / most} word="score, against the best" />
          </li>
        ))}
      </ul>
    </section>
  );
}
