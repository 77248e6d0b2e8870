/** What one sandbox has, each with methods of its own. */
import { Checkpoints } from "./checkpoints.ts";
import { Domains } from "./domains.ts";
import { Drills } from "./drills.ts";
import { Events } from "./events.ts";
import { Files } from "./files.ts";
import { Hooks } from "./hooks.ts";
import { Interpreter } from "./interpreter.ts";
import { Links } from "./links.ts";
import { Mcp } from "./mcp.ts";
import { SandboxNetwork } from "./network.ts";
import { Memory } from "./memory.ts";
import { Objects } from "./objects.ts";
import { Previews } from "./previews.ts";
import { Processes } from "./process.ts";
import { queuesOf, type Queues } from "./queues.ts";
import { Schedules } from "./schedules.ts";
import { SandboxSecrets } from "./secrets.ts";
import { Sessions } from "./sessions.ts";
import { Services } from "./services.ts";
import { Sockets } from "./sockets.ts";
import { State } from "./state.ts";
import { Terminals } from "./terminals.ts";
import type { Remote } from "./remote.ts";

export abstract class Resources {
  /** Files of the sandbox. */
  readonly files: Files;
  /** Background processes. */
  readonly processes: Processes;
  /** Terminals, which go on without anybody who looks at them. */
  readonly terminal: Terminals;
  /** The code interpreter. */
  readonly interpreter: Interpreter;
  /** Ports that are open to people without a key, each with one kind of token. */
  readonly previews: Previews;
  /** Share links, each revoked by itself. */
  readonly links: Links;
  /** Session tokens, for web pages and other programs without a key. */
  readonly sessions: Sessions;
  /** What happened to it. */
  readonly events: Events;
  /** Webhooks for a program in it, taken while it sleeps. */
  readonly hooks: Hooks;
  /** What runs in it at its times, for which it is woken. */
  readonly schedules: Schedules;
  /** What comes back after a kill. */
  readonly drills: Drills;
  /** What its programs saved, while it sleeps too. */
  readonly checkpoints: Checkpoints;
  /** Programs that it starts with, and that are kept running. */
  readonly services: Services;
  /** What its agent remembers, while it sleeps too. */
  readonly memory: Memory;
  /** MCP servers in it, for agents anywhere. */
  readonly mcp: Mcp;
  /** Host names of one's own. */
  readonly domains: Domains;
  /** What it may reach outside. */
  readonly network: SandboxNetwork;
  /** Secrets of its own, and those of the account that it has. */
  readonly secrets: SandboxSecrets;
  /** Keys with values, and a database, outside of its machine. */
  readonly data: State;
  /** Queues of tasks outside of its machine: `queues("name")`. */
  readonly queues: Queues;
  /** Bytes under keys, outside of its machine. */
  readonly objects: Objects;
  /** WebSockets that are held while it sleeps. */
  readonly sockets: Sockets;

  protected constructor(remote: Remote) {
    this.files = new Files(remote);
    this.processes = new Processes(remote);
    this.terminal = new Terminals(remote);
    this.interpreter = new Interpreter(remote);
    this.previews = new Previews(remote);
    this.links = new Links(remote);
    this.sessions = new Sessions(remote);
    this.events = new Events(remote);
    this.hooks = new Hooks(remote);
    this.drills = new Drills(remote);
    this.checkpoints = new Checkpoints(remote);
    this.memory = new Memory(remote.transport, remote.path("/memory"));
    this.mcp = new Mcp(remote);
    this.domains = new Domains(remote);
    this.network = new SandboxNetwork(remote);
    this.secrets = new SandboxSecrets(remote);
    this.schedules = new Schedules(remote);
    this.services = new Services(remote);
    this.sockets = new Sockets(remote);
    this.data = new State(remote);
    this.queues = queuesOf(remote);
    this.objects = new Objects(remote);
  }
}
