import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Unreachable } from "../api";
import { visible } from "../text";
import { Icon, type IconName } from "./icons";

const TONES: Record<string, string> = {
  verified: "good", passed: "good", pass: "good", xfailed: "good",
  running: "live", queued: "idle",
  unverified: "warn", limit: "warn", interrupted: "warn", cancelled: "warn", skipped: "idle", xpassed: "warn",
  refused: "bad", failed: "bad", fail: "bad", error: "bad", no_patch: "bad", model: "bad", environment: "bad",
  usage: "bad", defect: "bad", damaged: "bad",
}; // prettier-ignore

const WORDS: Record<string, string> = {
  no_patch: "no patch", limit: "limit reached", model: "model error", environment: "environment", usage: "bad input",
};

/** A state in one word, with its colour. */
export function Pill({ state }: { state: string }) {
  return <span class={`pill tone-${TONES[state] ?? "idle"}`}>{WORDS[state] ?? visible(state)}</span>;
}

export function tone(state: string): string {
  return TONES[state] ?? "idle";
}

export function Spinner({ label }: { label: string }) {
  return (
    <p class="quiet loading" role="status">
      <span class="spinner" aria-hidden="true" /> {label}
    </p>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="quiet">{children}</div>}
    </div>
  );
}

/** What went wrong, and a way to try again. Silence of the server has its own banner. */
export function Failure({ error, again }: { error: Error; again?: () => void }) {
  if (error instanceof Unreachable) return null;
  return (
    <div class="failure" role="alert">
      <Icon name="alert" /> <span>{visible(error.message)}</span>
      {again && (
        <button type="button" class="button small" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

interface ButtonProps {
  icon: IconName;
  label: string;
  onClick: () => void | Promise<void>;
  kind?: "primary" | "danger";
  disabled?: boolean;
}

export function IconButton({ icon, label, onClick, kind, disabled }: ButtonProps) {
  return (
    <button type="button" class={`button ${kind ?? ""}`} disabled={disabled} onClick={() => void onClick()}>
      <Icon name={icon} size={16} /> {label}
    </button>
  );
}

/** Copies a text; the button itself says that it did. */
export function CopyButton({ label, text }: { label: string; text: () => string | Promise<string> }) {
  const [said, setSaid] = useState("");
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async (): Promise<void> => {
    setSaid(await copyText(await text()).then(() => "Copied", () => "Not copied")); // prettier-ignore
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setSaid(""), 2000);
  };
  return (
    <button type="button" class="button" onClick={() => void copy()}>
      <Icon name={said === "Copied" ? "check" : "copy"} size={16} /> <span aria-live="polite">{said || label}</span>
    </button>
  );
}

/** The clipboard is only there in secure contexts; elsewhere the old way still works. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "offscreen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("the browser does not let this page copy");
}

/** A group of choices of which one holds. */
export function Choice(props: { label: string; options: [string, string][]; value: string; pick: (value: string) => void }) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map(([value, label]) => (
        <button
          key={value}
          type="button"
          class="chip"
          aria-pressed={value === props.value}
          onClick={() => props.pick(value)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

/** A scrolling text box that the keyboard can reach. */
export function Log({ text, label }: { text: string; label: string }) {
  return (
    <pre class="log" tabIndex={0} role="region" aria-label={label}>
      {text}
    </pre>
  );
}
