// The candidate, side by side (one column where the screen is narrow). A changed line can be asked why it is there.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { plural, visible } from "../text";
import { type FileDiff, type Hunk, type Row, type Side, changedLines, lineKey, parseDiff } from "./diff-model";

export interface Place {
  path: string;
  line: number;
  side: "old" | "new";
}

interface Ask {
  place: Place | null;
  ask: ((place: Place) => void) | null;
  fresh: (path: string, side: Side) => boolean;
}

const ROWS_AT_ONCE = 400;

export function DiffView(props: { diff: string; before?: string; place?: Place | null; ask?: (place: Place) => void }) {
  const files = useMemo(() => parseDiff(props.diff), [props.diff]);
  const known = useMemo(() => (props.before ? changedLines(parseDiff(props.before)) : null), [props.before]);
  const narrow = useNarrow();
  const ask: Ask = {
    place: props.place ?? null,
    ask: props.ask ?? null,
    fresh: (path, side) => known !== null && side.kind !== "same" && !known.has(lineKey(path, side)),
  };
  if (!files.length) return <p class="quiet pad">No change.</p>;
  return (
    <div class="diff">
      {files.map((file) => (
        <FileView key={file.path} file={file} ask={ask} narrow={narrow} />
      ))}
    </div>
  );
}

function useNarrow(): boolean {
  const media = useMemo(() => matchMedia("(max-width: 860px)"), []);
  const [narrow, setNarrow] = useState(media.matches);
  useEffect(() => {
    const change = (): void => setNarrow(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, [media]);
  return narrow;
}

function FileView({ file, ask, narrow }: { file: FileDiff; ask: Ask; narrow: boolean }) {
  const total = file.hunks.reduce((sum, hunk) => sum + hunk.rows.length, 0);
  const [limit, setLimit] = useState(ROWS_AT_ONCE);
  let left = limit;
  const hunks = file.hunks.flatMap((hunk) => {
    const rows = hunk.rows.slice(0, Math.max(0, left));
    left -= hunk.rows.length;
    return rows.length ? [{ ...hunk, rows }] : [];
  });
  return (
    <article class="diff-file" aria-label={`changes of ${visible(file.path)}`}>
      <header class="diff-head">
        <h3 class="path">{visible(file.path)}</h3>
        {file.note && <span class="quiet">{visible(file.note)}</span>}
        <span class="count">
          <span class="plus">+{file.added}</span> <span class="minus">−{file.removed}</span>
        </span>
      </header>
      {file.binary && <p class="quiet pad">A binary file; its content is in the patch.</p>}
      <div class="diff-scroll" tabIndex={0} role="region" aria-label={`diff of ${visible(file.path)}`}>
        {narrow ? <OneColumn path={file.path} hunks={hunks} ask={ask} /> : <TwoColumns path={file.path} hunks={hunks} ask={ask} />}
      </div>
      {total > limit && (
        <button type="button" class="button more" onClick={() => setLimit(limit * 4)}>
          Show more of {plural(total - limit, "row")}
        </button>
      )}
    </article>
  );
}

interface TableProps {
  path: string;
  hunks: Hunk[];
  ask: Ask;
}

function TwoColumns({ path, hunks, ask }: TableProps) {
  return (
    <table class="diff-table two">
      <Caption path={path} />
      <colgroup>
        <col class="col-number" />
        <col />
        <col class="col-number" />
        <col />
      </colgroup>
      {hunks.map((hunk, index) => (
        <tbody key={index}>
          <HunkHead header={hunk.header} span={4} />
          {hunk.rows.map((row, at) => (
            <tr key={at}>
              <SideCells side={row.left} which="old" path={path} ask={ask} />
              <SideCells side={row.right} which="new" path={path} ask={ask} />
            </tr>
          ))}
        </tbody>
      ))}
    </table>
  );
}

function OneColumn({ path, hunks, ask }: TableProps) {
  return (
    <table class="diff-table one">
      <Caption path={path} />
      <colgroup>
        <col class="col-number" />
        <col />
      </colgroup>
      {hunks.map((hunk, index) => (
        <tbody key={index}>
          <HunkHead header={hunk.header} span={2} />
          {stacked(hunk.rows).map(({ side, which }, at) => (
            <tr key={at}>
              <SideCells side={side} which={which} path={path} ask={ask} />
            </tr>
          ))}
        </tbody>
      ))}
    </table>
  );
}

/** Removed lines of a change above its added ones, as in a unified diff. */
function stacked(rows: Row[]): { side: Side; which: "old" | "new" }[] {
  const out: { side: Side; which: "old" | "new" }[] = [];
  let added: { side: Side; which: "new" }[] = [];
  for (const { left, right } of rows) {
    if (left?.kind === "same" || right?.kind === "same") {
      out.push(...added.splice(0));
      if (right) out.push({ side: right, which: "new" });
      continue;
    }
    if (left) out.push({ side: left, which: "old" });
    if (right) added.push({ side: right, which: "new" });
  }
  return [...out, ...added];
}

function Caption({ path }: { path: string }) {
  return <caption class="sr-only">Base and candidate of {visible(path)}</caption>;
}

function HunkHead({ header, span }: { header: string; span: number }) {
  return (
    <tr class="hunk">
      <td colSpan={span}>{visible(header)}</td>
    </tr>
  );
}

function SideCells(props: { side: Side | null; which: "old" | "new"; path: string; ask: Ask }) {
  const { side, which, path, ask } = props;
  if (!side) return <Cells kind="none" number="" code="" />;
  if (side.kind === "same") return <Cells kind="same" number={side.line} code={<Code side={side} />} />;
  const place: Place = { path, line: side.line, side: which };
  const picked = ask.place !== null && ask.place.path === path && ask.place.line === side.line && ask.place.side === which;
  const kind = `${side.kind} ${ask.fresh(path, side) ? "fresh" : ""} ${picked ? "picked" : ""} ${ask.ask ? "can-ask" : ""}`;
  const number = ask.ask ? (
    <button
      type="button"
      class="why"
      aria-pressed={picked}
      aria-label={`Why is line ${side.line} of ${visible(path)} ${side.kind}?`}
      onClick={() => ask.ask?.(place)}
    >
      {side.line}
    </button>
  ) : (
    side.line
  );
  return <Cells kind={kind} number={number} code={<Code side={side} />} onClick={() => ask.ask?.(place)} />;
}

function Cells(props: { kind: string; number: ComponentChildren; code: ComponentChildren; onClick?: () => void }) {
  return (
    <>
      <td class={`num ${props.kind}`}>{props.number}</td>
      <td class={`code ${props.kind}`} dir="ltr" onClick={props.onClick}>
        {props.code}
      </td>
    </>
  );
}

function Code({ side }: { side: Side }) {
  const sign = { same: " ", added: "+", removed: "−" }[side.kind];
  return (
    <>
      <span class="sign" aria-hidden="true">
        {sign}
      </span>
      {side.spans.map((span, index) => (span.changed ? <mark key={index}>{span.text}</mark> : span.text))}
    </>
  );
}
