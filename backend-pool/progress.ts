/** Telling a person what a long step does and how long it took. */
export interface Progress {
  /** Run a step; the work may say which part of it is under way. */
  step<T>(what: string, work: (part: (name: string) => void) => Promise<T>): Promise<T>;
}

/** Lines on stderr: when a step starts, every ten seconds while it runs, and when it is done. */
export const lineProgress: Progress = {
  async step(what, work) {
    const began = performance.now();
    const seconds = () => Math.round((performance.now() - began) / 1000);
    let part = "";
    process.stderr.write(`  ${what} ...\n`);
    const tick = setInterval(() => process.stderr.write(`    ${seconds()} s${part && `: ${part}`}\n`), 10_000);
    try {
      const result = await work((name) => {
        part = name;
      });
      process.stderr.write(`    done in ${seconds()} s\n`);
      return result;
    } finally {
      clearInterval(tick);
    }
  },
};
