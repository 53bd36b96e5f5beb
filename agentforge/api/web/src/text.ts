// Text from models, repositories and visitors, made safe to look at. It only ever becomes text nodes; here the
// characters that would still deceive a reader (controls, direction marks) are made visible.

const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g;
const SGR = /\u001b\[[0-9;:]*m/g;

/** Control characters as their pictures and direction marks by name; new lines and tabs stay. */
export function visible(text: string): string {
  return text
    .replace(/\r\n/g, "\n")
    .replace(CONTROL, (one) => (one === "\u007f" ? "\u2421" : String.fromCharCode(0x2400 + one.charCodeAt(0))))
    .replace(BIDI, (one) => `\u27e8U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

/** A log: colour sequences of terminals go, everything else becomes visible. */
export function plainLog(text: string): string {
  return visible(text.replace(SGR, ""));
}

/** Head and tail of a long text, and how much is not shown, so that no text can freeze the page. */
export function clip(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const half = Math.floor(limit / 2);
  const left = (text.length - 2 * half).toLocaleString("en");
  return `${text.slice(0, half)}\n… ${left} characters are not shown …\n${text.slice(-half)}`;
}

export function clipLine(text: string, limit = 1000): string {
  return text.length <= limit ? text : `${text.slice(0, limit)} … ${(text.length - limit).toLocaleString("en")} more`;
}

export function plural(count: number, word: string): string {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

export function money(cost: number | null | undefined, unpriced = 0): string {
  if (cost === null || cost === undefined) return "price unknown";
  const text = cost === 0 ? "$0" : `$${cost < 0.1 ? cost.toFixed(4) : cost.toFixed(2)}`;
  return unpriced ? `${text} + ${unpriced} unpriced` : text;
}

export function duration(seconds: number): string {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.round(seconds % 60)).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export function ago(time: string | null, now = Date.now()): string {
  if (!time) return "";
  const seconds = (now - Date.parse(time)) / 1000;
  if (Number.isNaN(seconds)) return "";
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  return new Date(time).toISOString().slice(0, 10);
}

/** The last parts of a path or URL: enough to recognise a repository. */
export function shortRepository(source: string): string {
  const parts = source.replace(/\/+$/, "").replace(/\.git$/, "").split("/");
  return (source.includes("://") ? parts.slice(-2) : parts.slice(-1)).join("/") || source;
}
