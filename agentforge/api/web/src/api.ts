// The one door to the server: JSON over fetch, problem+json as errors, the token, and whether anybody answers.

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly fields: Record<string, string> = {},
  ) {
    super(detail || title);
  }
}

/** Nobody answered: the server is gone or unreachable. */
export class Unreachable extends Error {
  constructor() {
    super("the server does not answer");
  }
}

type Listener = () => void;

/** A value that components can watch. */
export class Signal<Value> {
  private listeners = new Set<Listener>();
  constructor(private current: Value) {}

  get value(): Value {
    return this.current;
  }

  set value(next: Value) {
    if (Object.is(next, this.current)) return;
    this.current = next;
    for (const listener of [...this.listeners]) listener();
  }

  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export const online = new Signal(true);
export const signedOut = new Signal(false);

const TOKEN_KEY = "agentforge.token";

/** Try a token and keep it in this tab. Throws where the server does not take it. */
export async function signIn(token: string): Promise<void> {
  sessionStorage.setItem(TOKEN_KEY, token);
  try {
    await get("/v1/runs?limit=1");
  } catch (error) {
    sessionStorage.removeItem(TOKEN_KEY);
    throw error;
  }
}

export function hasToken(): boolean {
  return sessionStorage.getItem(TOKEN_KEY) !== null;
}

function headers(body: unknown, accept: string): HeadersInit {
  const token = sessionStorage.getItem(TOKEN_KEY);
  return {
    Accept: accept,
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    ...(token ? { Authorization: `Bearer ${token}` } : {}),
  };
}

async function send(method: string, path: string, body: unknown, accept: string, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: headers(body, accept),
      body: body === undefined ? null : JSON.stringify(body),
      cache: "no-store",
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    noteSilence();
    throw new Unreachable();
  }
  online.value = true;
  if (response.ok) return response;
  throw await problemOf(response);
}

async function problemOf(response: Response): Promise<Problem> {
  if (response.status === 401) signedOut.value = true;
  const said = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  const detail = String(said.detail ?? "");
  // "body.limits.time_s: what is wrong" names the field that the form shows it at.
  const place = /^body\.(?:\w+\.)*?([a-z_]+)(?:\.\d+)?: (.*)$/s.exec(detail);
  const fields: Record<string, string> = place ? { [String(place[1])]: String(place[2]) } : {};
  const hint = said.hint ? ` (${String(said.hint)})` : "";
  const title = String(said.title ?? `the server answered ${response.status}`);
  return new Problem(response.status, title, `${String(said.detail ?? title)}${hint}`, fields);
}

export async function get<Answer>(path: string, signal?: AbortSignal): Promise<Answer> {
  return (await send("GET", path, undefined, "application/json", signal)).json() as Promise<Answer>;
}

export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  return (await send("GET", path, undefined, "text/plain, */*", signal)).text();
}

export async function getBlob(path: string): Promise<Blob> {
  return (await send("GET", path, undefined, "*/*")).blob();
}

export async function post<Answer>(path: string, body: unknown = {}): Promise<Answer> {
  const text = await (await send("POST", path, body, "application/json")).text();
  return (text ? JSON.parse(text) : {}) as Answer;
}

export async function remove(path: string): Promise<void> {
  await send("DELETE", path, undefined, "application/json");
}

/** A short-lived ticket for an EventSource, which cannot send headers; none is needed without a token. */
export async function ticket(): Promise<string | null> {
  if (!hasToken()) return null;
  return (await post<{ ticket: string }>("/v1/tickets")).ticket;
}

export function query(values: Record<string, string | number | undefined | null>): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

let asking = false;

/** Say that the server is gone, and ask until it is back. */
export function noteSilence(): void {
  online.value = false;
  if (asking) return;
  asking = true;
  const ask = async (): Promise<void> => {
    try {
      await fetch("/healthz", { cache: "no-store" });
      asking = false;
      online.value = true;
    } catch {
      setTimeout(ask, 1500);
    }
  };
  setTimeout(ask, 1500);
}
