/** Telling a person what a long step does and how long it took. */
export interface Progress {
  step<T>(what: string, work: () => Promise<T>): Promise<T>;
}

/** Lines on stderr: when a step starts, every ten seconds while it runs, and when it is done. */
export const lineProgress: Progress = {
  async step(what, work) {
    const began = performance.now();
    const seconds = () => ((performance.now() - began) / 1000).toFixed(1);
    process.stderr.write(`  ${what} ...\n`);
    const tick = setInterval(() => process.stderr.write(`    still ${what.split(" (")[0]}: ${seconds()} s\n`), 10_000);
    try {
      const result = await work();
      process.stderr.write(`  done in ${seconds()} s\n`);
      return result;
    } finally {
      clearInterval(tick);
    }
  },
};
