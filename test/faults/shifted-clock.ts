/**
 * Loaded into the host agent before it starts (`NODE_OPTIONS=--import`): its wall clock is off by what a file says, from
 * SIGUSR2 on and at every start. Clocks that never jump are left alone, as a kernel does when somebody sets the time.
 */
import { readFileSync } from "node:fs";

const file = process.env["ROUSE_FAULTS_CLOCK"];
// Everything that the host agent and its launcher start inherits the option.
if (file !== undefined && process.argv[1]?.endsWith("backend-pool/main.ts")) {
  const RealDate = Date;
  let shiftMs = 0;
  const look = () => {
    try {
      shiftMs = Number(readFileSync(file, "utf8")) || 0;
    } catch {
      shiftMs = 0;
    }
  };
  look();
  process.on("SIGUSR2", look);
  class ShiftedDate extends RealDate {
    constructor(...values: [] | [number | string | Date]) {
      if (values.length === 0) super(RealDate.now() + shiftMs);
      else super(values[0]);
    }
    static override now(): number {
      return RealDate.now() + shiftMs;
    }
  }
  globalThis.Date = ShiftedDate as DateConstructor;
}
