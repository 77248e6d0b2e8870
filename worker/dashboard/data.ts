/** What a view reads, and what it changes, with what came of it. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { say } from "./parts/notes.tsx";

export interface Read<T> {
  readonly data: T | null;
  /** What the newest try ended with. */
  readonly fault: unknown;
  readonly loading: boolean;
  /** Read anew; what there is stays until then. */
  reload(): void;
  set(data: T): void;
}

/** @param key what is read; another one begins from nothing. null: nothing is to be read */
export function useRead<T>(key: string | null, read: (signal: AbortSignal) => Promise<T>): Read<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; fault: unknown }>({
    ...{ key: null, data: null, fault: null },
  });
  const [loading, setLoading] = useState(key !== null);
  const [turn, setTurn] = useState(0);
  const newest = useRef(read);
  newest.current = read;
  useEffect(() => {
    if (key === null) return;
    const controller = new AbortController();
    setLoading(true);
    newest
      .current(controller.signal)
      .then((data) => ({ key, data, fault: null }))
      .catch((fault: unknown) => ({ key, data: null, fault }))
      .then((next) => {
        if (controller.signal.aborted) return;
        setLoading(false);
        // What could not be read anew is shown as it was, with the fault.
        setState((was) => (next.fault !== null && was.key === key ? { ...was, fault: next.fault } : next));
      });
    return () => controller.abort();
  }, [key, turn]);
  const fresh = state.key === key;
  return {
    data: fresh ? state.data : null,
    fault: fresh ? state.fault : null,
    loading: key !== null && (loading || !fresh),
    reload: useCallback(() => setTurn((n) => n + 1), []),
    set: (data) => setState({ key, data, fault: null }),
  };
}

export interface Doing {
  /** What is under way, as it was called. */
  readonly busy: string | null;
  readonly fault: unknown;
  /** Answers whether it worked. `said`: what people are told then. */
  run(what: string, act: () => Promise<string | void>): Promise<boolean>;
  clear(): void;
}

export function useDoing(): Doing {
  const [busy, setBusy] = useState<string | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const run = async (what: string, act: () => Promise<string | void>) => {
    setBusy(what);
    setFault(null);
    try {
      const said = await act();
      if (said) say(said);
      return true;
    } catch (error) {
      setFault(error);
      return false;
    } finally {
      setBusy(null);
    }
  };
  return { busy, fault, run, clear: () => setFault(null) };
}

/** Now, again and again, for times that count up. */
export function useNow(everyMs = 15_000): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
