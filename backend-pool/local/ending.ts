/** A person ends what runs: Ctrl-C, `kill`, or a terminal that closes. */

/** Aborted by the first of these signals; further ones change nothing, so that what ends in order goes on. */
export function untilEnded(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => controller.abort());
  // A terminal that is gone takes no more lines, and that must not end this process before the others.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
  return controller.signal;
}
