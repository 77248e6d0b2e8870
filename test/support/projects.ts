/** The test projects, in the order they run, the longest first, as two run at a time: each is a folder `test/<name>` with a `vitest.config.ts`. */
export const testProjects: readonly {
  readonly name: string;
  /** It runs virtual machines, and nothing may run beside it. */
  readonly alone: boolean;
}[] = [
  { name: "edge", alone: false },
  { name: "sdk", alone: false },
  { name: "browser", alone: false },
  { name: "serve", alone: false },
  { name: "archive", alone: false },
  { name: "guest", alone: false },
  { name: "host", alone: false },
  { name: "unit", alone: false },
  { name: "docs", alone: false },
  { name: "support", alone: false },
  { name: "conformance", alone: true },
  { name: "fencing", alone: true },
  { name: "e2e", alone: true },
];
