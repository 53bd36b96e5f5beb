// A unified diff as rows of two sides. Parsing and pairing of lines are diff2html's, the changed words are jsdiff's;
// only their data is used, never the markup they can make: the page holds no text of others as markup.

import { diffWordsWithSpace } from "diff";
import { parse } from "diff2html/lib-esm/diff-parser.js";
import { newDistanceFn, newMatcherFn } from "diff2html/lib-esm/rematch.js";
import type { DiffFile, DiffLine } from "diff2html/lib-esm/types.js";
import { clipLine, visible } from "../text";

export interface Span {
  text: string;
  changed: boolean;
}

export interface Side {
  line: number;
  kind: "same" | "removed" | "added";
  spans: Span[];
}

export interface Row {
  left: Side | null;
  right: Side | null;
}

export interface Hunk {
  header: string;
  rows: Row[];
}

export interface FileDiff {
  path: string;
  note: string;
  added: number;
  removed: number;
  hunks: Hunk[];
  binary: boolean;
}

const MATCHED_LINES = 60;
const COMPARED_CHARS = 400;

export function parseDiff(diff: string): FileDiff[] {
  return parse(diff, { diffMaxLineLength: 200_000, diffMaxChanges: 50_000 }).map(fileOf);
}

function fileOf(file: DiffFile): FileDiff {
  const path = file.isDeleted ? file.oldName : file.newName;
  return {
    path,
    note: noteOf(file),
    added: file.addedLines,
    removed: file.deletedLines,
    binary: Boolean(file.isBinary),
    hunks: file.blocks.map((block) => ({ header: block.header, rows: rowsOf(block.lines) })),
  };
}

function noteOf(file: DiffFile): string {
  if (file.isNew) return "new file";
  if (file.isDeleted) return "deleted";
  if (file.isRename) return `renamed from ${file.oldName}`;
  if (file.isTooBig) return "too large to show";
  return "";
}

function rowsOf(lines: DiffLine[]): Row[] {
  const rows: Row[] = [];
  let removed: DiffLine[] = [];
  let added: DiffLine[] = [];
  const settle = (): void => {
    rows.push(...pair(removed, added));
    removed = [];
    added = [];
  };
  for (const line of lines) {
    const type = String(line.type);
    if (type === "delete") removed.push(line);
    else if (type === "insert") added.push(line);
    else {
      settle();
      rows.push({
        left: plainSide(line, "same", line.oldNumber ?? 0),
        right: plainSide(line, "same", line.newNumber ?? 0),
      });
    }
  }
  settle();
  return rows;
}

const match = newMatcherFn<DiffLine>(newDistanceFn((line: DiffLine) => content(line).slice(0, COMPARED_CHARS)));

/** Removed beside added: the most similar lines in one row. */
function pair(removed: DiffLine[], added: DiffLine[]): Row[] {
  const small = removed.length * added.length <= MATCHED_LINES * MATCHED_LINES && removed.length && added.length;
  const groups = small ? match(removed, added) : [[removed, added]];
  return groups.flatMap(([before = [], after = []]) =>
    Array.from({ length: Math.max(before.length, after.length) }, (_, index) => rowOf(before[index], after[index])),
  );
}

function rowOf(before: DiffLine | undefined, after: DiffLine | undefined): Row {
  if (!before || !after) {
    return {
      left: before ? plainSide(before, "removed", before.oldNumber ?? 0) : null,
      right: after ? plainSide(after, "added", after.newNumber ?? 0) : null,
    };
  }
  const [old, now] = [content(before), content(after)];
  if (old.length > COMPARED_CHARS || now.length > COMPARED_CHARS) {
    return {
      left: plainSide(before, "removed", before.oldNumber ?? 0),
      right: plainSide(after, "added", after.newNumber ?? 0),
    };
  }
  const words = diffWordsWithSpace(old, now);
  const side = (skip: "added" | "removed", keep: "added" | "removed"): Span[] =>
    words.filter((one) => !one[skip]).map((one) => ({ text: visible(one.value), changed: Boolean(one[keep]) }));
  return {
    left: { line: before.oldNumber ?? 0, kind: "removed", spans: side("added", "removed") },
    right: { line: after.newNumber ?? 0, kind: "added", spans: side("removed", "added") },
  };
}

function plainSide(line: DiffLine, kind: Side["kind"], number: number): Side {
  return { line: number, kind, spans: [{ text: visible(clipLine(content(line))), changed: false }] };
}

function content(line: DiffLine): string {
  return line.content.slice(1);
}

/** Changed lines as keys, to tell which are new since an earlier candidate. */
export function changedLines(files: FileDiff[]): Set<string> {
  const keys = new Set<string>();
  for (const file of files)
    for (const hunk of file.hunks)
      for (const row of hunk.rows)
        for (const side of [row.left, row.right])
          if (side && side.kind !== "same") keys.add(lineKey(file.path, side));
  return keys;
}

export function lineKey(path: string, side: Side): string {
  return `${path}\0${side.kind}\0${side.spans.map((span) => span.text).join("")}`;
}
