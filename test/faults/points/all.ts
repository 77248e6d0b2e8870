/** All kill points, in the order in which they are played. */
import type { Point } from "../point.ts";
import { archive } from "./archive.ts";
import { clock } from "./clock.ts";
import { create } from "./create.ts";
import { disk } from "./disk.ts";
import { end } from "./end.ts";
import { events } from "./events.ts";
import { guest } from "./guest.ts";
import { inbox } from "./inbox.ts";
import { inputs } from "./inputs.ts";
import { late } from "./late.ts";
import { ledger } from "./ledger.ts";
import { messages } from "./messages.ts";
import { parts } from "./parts.ts";
import { pause } from "./pause.ts";
import { timers } from "./timers.ts";
import { volumes } from "./volumes.ts";
import { wake } from "./wake.ts";

export const points: readonly Point[] = [
  ...create,
  ...pause,
  ...wake,
  ...archive,
  ...volumes,
  ...guest,
  ...inbox,
  ...parts,
  ...end,
  ...clock,
  ...messages,
  ...late,
  ...inputs,
  ...events,
  ...timers,
  ...ledger,
  ...disk,
];
