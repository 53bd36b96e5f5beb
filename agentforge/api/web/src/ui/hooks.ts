import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { Problem, type Signal, online } from "../api";

/** Re-render whenever the signal changes. */
export function useSignal<Value>(signal: Signal<Value>): Value {
  const [, update] = useReducer((count: number, _: null) => count + 1, 0);
  useEffect(() => signal.subscribe(() => update(null)), [signal]);
  return signal.value;
}

export interface Loaded<Value> {
  value: Value | undefined;
  error: Error | undefined;
  loading: boolean;
  again: () => void;
}

/** Load when `key` changes (null: not at all), keep the last value meanwhile, and load again when the server is back. */
export function useLoad<Value>(key: string | null, load: (signal: AbortSignal) => Promise<Value>): Loaded<Value> {
  const [state, setState] = useState<{ value?: Value; error?: Error; loading: boolean }>({ loading: key !== null });
  const [turn, again] = useReducer((count: number, _: null) => count + 1, 0);
  const up = useSignal(online);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (key === null || !up) return;
    const abort = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    latest
      .current(abort.signal)
      .then((value) => !abort.signal.aborted && setState({ value, loading: false }))
      .catch((error: Error) => {
        if (abort.signal.aborted) return;
        setState((old) => ({ ...(error instanceof Problem ? {} : old), error, loading: false }));
      });
    return () => abort.abort();
  }, [key, turn, up]);
  return { value: state.value, error: state.error, loading: state.loading, again: () => again(null) };
}

/** The value, at rest for `delay` milliseconds. */
export function useDebounced<Value>(value: Value, delay = 250): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), delay);
    return () => clearTimeout(timer);
  }, [value, delay]);
  return settled;
}

/** The time, every `interval` milliseconds while `running`. */
export function useNow(running: boolean, interval = 1000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => setNow(Date.now()), interval);
    return () => clearInterval(timer);
  }, [running, interval]);
  return now;
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · AgentForge` : "AgentForge";
  }, [title]);
}
