/** All verbs, in the order of the help. */
import type { Command } from "../command.ts";
import { cost } from "./cost.ts";
import { cp } from "./cp.ts";
import { create } from "./create.ts";
import { doctor } from "./doctor.ts";
import { extend } from "./extend.ts";
import { exec } from "./exec.ts";
import { get } from "./get.ts";
import { helpCommand } from "./help.ts";
import { hold } from "./hold.ts";
import { host } from "./host.ts";
import { logs } from "./logs.ts";
import { ls } from "./ls.ts";
import { pause } from "./pause.ts";
import { restart } from "./restart.ts";
import { rm } from "./rm.ts";
import { runCode } from "./run-code.ts";
import { stop } from "./stop.ts";
import { url } from "./url.ts";
import { usage } from "./usage.ts";
import { version } from "./version.ts";
import { wake } from "./wake.ts";

export const commands: readonly Command[] = [
  create,
  ls,
  get,
  exec,
  runCode,
  logs,
  cp,
  url,
  pause,
  wake,
  stop,
  restart,
  extend,
  hold,
  rm,
  usage,
  cost,
  host,
  doctor,
  version,
  helpCommand(() => commands),
];
