/** All verbs, in the order of the help. */
import type { Command } from "../command.ts";
import { account } from "./account.ts";
import { agent } from "./agent.ts";
import { checkpoint } from "./checkpoint.ts";
import { completionCommand } from "./completion.ts";
import { cost } from "./cost.ts";
import { cp } from "./cp.ts";
import { create } from "./create.ts";
import { diff } from "./diff.ts";
import { doctor } from "./doctor.ts";
import { domain } from "./domain.ts";
import { drill } from "./drill.ts";
import { endpoint } from "./endpoint.ts";
import { events } from "./events.ts";
import { extend } from "./extend.ts";
import { exec } from "./exec.ts";
import { forward } from "./forward.ts";
import { fork } from "./fork.ts";
import { get } from "./get.ts";
import { helpCommand } from "./help.ts";
import { history } from "./history.ts";
import { hold } from "./hold.ts";
import { hook } from "./hook.ts";
import { host } from "./host.ts";
import { keys } from "./keys.ts";
import { link } from "./link.ts";
import { login } from "./login.ts";
import { logout } from "./logout.ts";
import { logs } from "./logs.ts";
import { ls } from "./ls.ts";
import { mcp } from "./mcp.ts";
import { mcpServer } from "./mcp-server.ts";
import { members } from "./members.ts";
import { network } from "./network.ts";
import { memory } from "./memory.ts";
import { notices } from "./notices.ts";
import { object } from "./object.ts";
import { open } from "./open.ts";
import { pause } from "./pause.ts";
import { queue } from "./queue.ts";
import { recover } from "./recover.ts";
import { restart } from "./restart.ts";
import { resume } from "./resume.ts";
import { rm } from "./rm.ts";
import { rollback } from "./rollback.ts";
import { rules } from "./rules.ts";
import { runCode } from "./run-code.ts";
import { schedule } from "./schedule.ts";
import { services } from "./services.ts";
import { secret } from "./secret.ts";
import { session } from "./session.ts";
import { snapshot } from "./snapshot.ts";
import { sockets } from "./sockets.ts";
import { state } from "./state.ts";
import { stop } from "./stop.ts";
import { store } from "./store.ts";
import { terminal } from "./terminal.ts";
import { top } from "./top.ts";
import { undelete } from "./undelete.ts";
import { url } from "./url.ts";
import { usage } from "./usage.ts";
import { version } from "./version.ts";
import { volume } from "./volume.ts";
import { watch } from "./watch.ts";
import { whoami } from "./whoami.ts";
import { wake } from "./wake.ts";
import { why } from "./why.ts";

export const commands: readonly Command[] = [
  create,
  ls,
  top,
  get,
  exec,
  terminal,
  forward,
  watch,
  runCode,
  logs,
  cp,
  url,
  open,
  link,
  session,
  domain,
  pause,
  wake,
  stop,
  restart,
  recover,
  extend,
  hold,
  snapshot,
  volume,
  hook,
  schedule,
  state,
  queue,
  object,
  memory,
  mcp,
  mcpServer,
  store,
  checkpoint,
  drill,
  events,
  endpoint,
  agent,
  fork,
  history,
  diff,
  rollback,
  why,
  resume,
  services,
  rules,
  network,
  secret,
  sockets,
  rm,
  undelete,
  usage,
  cost,
  login,
  logout,
  whoami,
  keys,
  members,
  account,
  notices,
  host,
  doctor,
  version,
  completionCommand(() => commands),
  helpCommand(() => commands),
];
