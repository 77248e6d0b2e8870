// long file: one server that stands for a whole host, whose parts are in files beside it
/**
 * A host agent without machines: the control contract in memory, guests that echo, and switches for what goes wrong.
 * Tests in another runtime steer it over HTTP, below `/fake`.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { SavedState } from "../../sdk/contract/archive.ts";
import type { MachineBoot } from "../../sdk/contract/boot.ts";
import { errorBody, RouseFailure, statusOf, type ErrorCode } from "../../sdk/contract/error-codes.ts";
import {
  CaptureMachine,
  CreateMachine,
  DiffStates,
  hostHeaders,
  hostPaths,
  machineVerbs,
  PauseMachine,
  Revoke,
  RunMachine,
  StopMachine,
  volumeVerbs,
  type Machine,
} from "../../sdk/contract/host.ts";
import type { GuestTimer } from "../../sdk/contract/guest-timer.ts";
import { controlSecret, ticketSecret } from "../../sdk/contract/host-secrets.ts";
import { labelOfId } from "../../sdk/contract/names.ts";
import { signingKey, Ticket, verify, type SigningKey } from "../../sdk/contract/ticket.ts";
import { toAgent, upgradeToAgent } from "./fake-agent.ts";
import { FakeCommands, type CommandTurn } from "./fake-commands.ts";
import { FakeDrills, type DrillOrders } from "./fake-drills.ts";
import { FakeOutside } from "./fake-outside.ts";
import { FakeProgram, type Turn } from "./fake-program.ts";
import { FakeSockets, type SocketOrders } from "./fake-sockets.ts";

/** What the next call of an action does instead of succeeding at once. */
export interface Plan {
  readonly label: string;
  readonly action: string;
  /** Wait for `POST /fake/release` first. */
  readonly hold?: boolean;
  /** Close the connection without an answer. */
  readonly drop?: "before" | "after";
  readonly fail?: { readonly code: ErrorCode; readonly message: string; readonly loseMemory?: boolean };
}

export interface FakeState {
  readonly machines: Machine[];
  /** Control actions in order, such as `wake 2`. */
  readonly log: string[];
  /** Requests that reached the guest. */
  readonly requests: number;
}

interface Held {
  machine: Machine;
  env: Record<string, string>;
  /** What it was told to start with; null: nothing. */
  boot: MachineBoot | null;
  idlePauseSeconds: number;
  used: boolean;
  counter: number;
  /** What its guest says before it sleeps. */
  timer: GuestTimer | null;
  /** Connections to its real agent that are open, each as what ends it. */
  readonly open: Set<() => void>;
}

export class FakeHost {
  readonly #server: Server;
  /** Of all hosts that it stands for. */
  readonly #secrets: Promise<ReadonlySet<string>>;
  readonly #keys: Promise<SigningKey[]>;
  readonly #sockets = new FakeSockets();
  readonly #drills = new FakeDrills();
  readonly #outside = new FakeOutside();
  readonly #machines = new Map<string, Held>();
  readonly #logs = new Map<string, string[]>();
  readonly #requests = new Map<string, number>();
  readonly #plans: Plan[] = [];
  readonly #holds = new Map<string, (() => void)[]>();
  readonly #programs = new Map<string, FakeProgram>();
  readonly #commands = new Map<string, FakeCommands>();
  #away = new Set<string>();
  readonly #revoked: string[] = [];
  readonly #captures = new Map<string, Held>();
  /** What was compared. Plans name the manifest of its `to` in the place of a label. */
  readonly #diffs: DiffStates[] = [];
  /** Stored states that machines were made with. */
  readonly #arrived: (SavedState & { id: string; diskOnly: boolean })[] = [];

  /** The port of a guest agent that all its machines have; undefined: the agent's calls are answered with what was asked. */
  readonly #agentPort: number | undefined;
  /** Whether ports of its machines are those of the machine that it runs on. */
  readonly #hasPorts: boolean;

  /** It stands for every host of the names. */
  constructor(
    roots: { host: string; signing: string },
    hostIds: readonly string[] = ["fake-1", "spare-1", "rack-7"],
    agentPort?: number,
    hasPorts = false,
  ) {
    this.#agentPort = agentPort;
    this.#hasPorts = hasPorts;
    const of = (hostId: string) => controlSecret(roots.host, hostId).then((secret) => `Bearer ${secret}`);
    this.#secrets = Promise.all(hostIds.map(of)).then((all) => new Set(all));
    this.#keys = Promise.all(
      hostIds.map(async (hostId) => signingKey(await ticketSecret(roots.signing, hostId), "ticket")),
    );
    this.#server = createServer((req, res) => {
      this.#handle(req, res).catch((fault: unknown) => this.#refuse(res, fault));
    });
    this.#server.on("upgrade", (req, socket, head) => {
      this.#upgrade(req, socket, head).catch(() => socket.destroy());
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#sockets.close();
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? "/", "http://fake");
    if (url.pathname.startsWith("/fake/")) return this.#steer(url, req, res);
    if (url.pathname.startsWith("/out/")) {
      // Somebody's server, which events are sent to.
      const path = url.pathname + url.search;
      const asked = { target: "out", path, body: await bytesOf(req) };
      return this.#program(url.pathname.split("/")[2] ?? "").take(asked, req, res);
    }
    if (url.pathname.startsWith("/m/")) {
      const id = decodeURIComponent(url.pathname.split("/")[2] ?? "");
      return this.#away.has(labelOfId(id) ?? "") ? void req.socket.destroy() : this.#data(url, req, res);
    }
    return this.#control(url, req, res);
  }

  async #steer(url: URL, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const label = url.searchParams.get("label") ?? "";
    const held = [...this.#machines.values()].filter(({ machine }) => labelOfId(machine.id) === label);
    switch (url.pathname) {
      case "/fake/revoked":
        return json(res, 200, this.#revoked);
      case "/fake/arrived":
        return json(
          res,
          200,
          this.#arrived.filter(({ id }) => labelOfId(id) === label),
        );
      case "/fake/diffs":
        return json(
          res,
          200,
          this.#diffs.filter(({ to }) => to.manifest === label),
        );
      case "/fake/plan":
        this.#plans.push(JSON.parse((await bytesOf(req)).toString()) as Plan);
        break;
      case "/fake/release":
        for (const go of this.#holds.get(label) ?? []) go();
        this.#holds.delete(label);
        break;
      case "/fake/drill":
        return json(res, 200, this.#drills.order(label, JSON.parse((await bytesOf(req)).toString()) as DrillOrders));
      case "/fake/crash":
        for (const one of held) this.#crash(one);
        break;
      case "/fake/sleep":
        for (const one of held)
          one.machine = { ...one.machine, state: "paused", memory: "saved", depth: "local", timer: one.timer };
        for (const one of held) this.#cut(one);
        break;
      case "/fake/timer":
        for (const one of held) one.timer = JSON.parse((await bytesOf(req)).toString()) as GuestTimer | null;
        break;
      case "/fake/use":
        for (const one of held) one.used = true;
        break;
      case "/fake/away":
        this.#away =
          url.searchParams.get("on") === "1"
            ? new Set([...this.#away, label])
            : new Set([...this.#away].filter((l) => l !== label));
        break;
      case "/fake/turns": {
        for (const turn of JSON.parse((await bytesOf(req)).toString()) as Turn[]) this.#program(label).plan(turn);
        break;
      }
      case "/fake/sockets":
        if (req.method === "POST")
          this.#sockets.order(label, JSON.parse((await bytesOf(req)).toString()) as SocketOrders);
        return json(res, 200, this.#sockets.of(label));
      case "/fake/outside":
        return json(res, 200, this.#outside.of(label));
      case "/fake/taken":
        return json(res, 200, this.#program(label).taken);
      case "/fake/commands":
        for (const turn of JSON.parse((await bytesOf(req)).toString() || "[]") as CommandTurn[])
          this.#commandsOf(label).plan(turn);
        return json(res, 200, this.#commandsOf(label).begun);
      case "/fake/end":
        this.#commandsOf(label).end(JSON.parse((await bytesOf(req)).toString()) as CommandTurn);
        break;
      case "/fake/unlist":
        this.#commandsOf(label).unlist();
        break;
      case "/fake/boot":
        return json(res, 200, Object.fromEntries(held.map((one) => [one.machine.id, one.boot])));
      case "/fake/env":
        return json(
          res,
          200,
          Object.fromEntries(
            held.map((one) => [one.machine.id, { env: one.env, idlePauseSeconds: one.idlePauseSeconds }]),
          ),
        );
      default:
    }
    const state: FakeState = {
      machines: held.map(({ machine }) => machine),
      log: this.#logs.get(label) ?? [],
      requests: this.#requests.get(label) ?? 0,
    };
    json(res, 200, state);
  }

  async #control(url: URL, req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (!(await this.#secrets).has(req.headers.authorization ?? ""))
      throw new RouseFailure("unauthorized", "wrong secret");
    if (url.pathname === hostPaths.revoke) {
      this.#revoked.push(...Revoke.parse(JSON.parse((await bytesOf(req)).toString())).keyIds);
      return json(res, 200, { ok: true });
    }
    if (url.pathname === hostPaths.diffs) {
      const states = DiffStates.parse(JSON.parse((await bytesOf(req)).toString()));
      this.#diffs.push(states);
      const at = this.#plans.findIndex(({ action, label }) => action === "diff" && label === states.to.manifest);
      const [plan] = at === -1 ? [] : this.#plans.splice(at, 1);
      if (plan?.drop) return void req.socket.destroy();
      if (plan?.fail) throw new RouseFailure(plan.fail.code, plan.fail.message);
      const made = { path: "/workspace/new", change: "added", kind: "file", sizeBefore: null, sizeAfter: 7 };
      return json(res, 200, { data: [made], truncated: false });
    }
    if (url.pathname === "/drills") {
      const part = this.#drills.part(req.method, (await bytesOf(req)).toString());
      if (!part) throw new RouseFailure("unavailable", "not here");
      return json(res, 200, part);
    }
    const dropped = /^\/captures\/([^/]+)$/.exec(url.pathname)?.[1];
    if (dropped !== undefined) {
      this.#captures.delete(dropped);
      return json(res, 200, { id: dropped, deleted: true });
    }
    const match = /^\/machines\/([^/:]+)(?::([a-z]+))?$/.exec(url.pathname);
    if (!match?.[1]) throw new RouseFailure("route_not_found", "no such route");
    const id = decodeURIComponent(match[1]);
    const label = labelOfId(id) ?? "";
    const action = match[2] ?? { GET: "get", PUT: "create", DELETE: "destroy" }[req.method ?? ""] ?? "unknown";
    const body: unknown = JSON.parse((await bytesOf(req)).toString() || "{}");
    if (this.#away.has(label)) {
      req.socket.destroy();
      return;
    }
    if (action !== "get") {
      const generation = (body as { generation?: number }).generation;
      this.#logs.set(label, [
        ...(this.#logs.get(label) ?? []),
        generation === undefined ? action : `${action} ${generation}`,
      ]);
    }
    const at = this.#plans.findIndex((plan) => plan.label === label && plan.action === action);
    const [plan] = at === -1 ? [] : this.#plans.splice(at, 1);
    if (plan?.hold)
      await new Promise<void>((resolve) => this.#holds.set(label, [...(this.#holds.get(label) ?? []), resolve]));
    if (plan?.drop === "before") return void req.socket.destroy();
    if (plan?.fail) {
      const held = this.#machines.get(id);
      if (held && plan.fail.loseMemory)
        held.machine = { ...held.machine, state: "stopped", memory: "none", endReason: "wake_failed" };
      throw new RouseFailure(plan.fail.code, plan.fail.message);
    }
    const answer = this.#act(id, action, body);
    this.#outside.take(label, id, action, body);
    if (plan?.drop === "after") return void req.socket.destroy();
    json(res, 200, answer);
  }

  #act(id: string, action: string, body: unknown): object {
    const held = this.#machines.get(id);
    if (action === "create") return this.#create(id, CreateMachine.parse(body), held);
    if (action === "destroy") {
      this.#machines.delete(id);
      this.#sockets.cut(id);
      return { id, deleted: true };
    }
    if (!held) throw new RouseFailure("not_found", "no such machine");
    const { machine } = held;
    if (action === "get") return machine;
    // Volumes are a word to it; what a host stores of them tests say themselves.
    if (volumeVerbs.some((verb) => verb === action)) return machine;
    if (action === "kill") return this.#crash(held);
    if (action !== "capture" && !machineVerbs.some((verb) => verb === action))
      throw new RouseFailure("route_not_found", "no such verb");
    if (action === "capture") {
      const { capture } = CaptureMachine.parse(body);
      this.#captures.set(capture, held);
      return { frozenMs: machine.state === "running" ? 7 : null };
    }
    const { generation } = StopMachine.parse(body);
    if (generation < machine.generation) throw new RouseFailure("conflict", "that generation is over");
    const conflict = () => new RouseFailure("conflict", `cannot ${action} a machine that is ${machine.state}`);
    switch (action) {
      case "wake":
      case "boot": {
        const run = RunMachine.parse(body);
        if (machine.state === "running" && machine.generation === generation) return machine;
        if (action === "wake" && machine.memory !== "saved") throw conflict();
        if (action === "boot") {
          held.counter = 0;
          this.#commands.get(labelOfId(id) ?? "")?.reboot();
        }
        const { env, idlePauseSeconds, boot = null } = run;
        Object.assign(held, { env, idlePauseSeconds, boot, used: false });
        held.machine = {
          ...machine,
          generation,
          state: "running",
          memory: "live",
          memoryRestored: action === "wake",
          endReason: null,
          timer: null,
        };
        break;
      }
      case "pause":
        if (machine.state === "paused") break;
        if (machine.state !== "running") throw conflict();
        if (PauseMachine.parse(body).onlyIfIdle && held.used) throw new RouseFailure("conflict", "used since");
        held.machine = { ...machine, state: "paused", memory: "saved", depth: "resident", timer: held.timer };
        this.#cut(held);
        break;
      case "stop":
        held.machine = { ...machine, state: "stopped", memory: "none", endReason: null };
        this.#cut(held);
        break;
      case "configure": {
        if (machine.state !== "running") throw conflict();
        const { env, idlePauseSeconds, boot = held.boot } = RunMachine.parse(body);
        Object.assign(held, { env, idlePauseSeconds, boot });
        break;
      }
      default:
    }
    return held.machine;
  }

  #create(id: string, body: CreateMachine, held: Held | undefined): Machine {
    if (held) {
      if (held.machine.state === "running" && held.machine.generation === body.generation) return held.machine;
      // It stands for all hosts, so what comes from another one may be here.
      if (!body.saved) throw new RouseFailure("conflict", "the machine exists");
    }
    const source = body.capture === undefined ? undefined : this.#captures.get(body.capture);
    if (body.capture !== undefined && !source) throw new RouseFailure("snapshot_not_found", "no such copy");
    if (body.saved) this.#arrived.push({ id, ...body.saved, diskOnly: body.diskOnly ?? false });
    const machine: Machine = {
      id,
      account: body.account,
      generation: body.generation,
      state: "running",
      shape: body.shape,
      memory: "live",
      depth: null,
      memoryRestored: body.diskOnly !== true,
      endReason: null,
      lastActiveAt: new Date().toISOString(),
      lastActionMs: 1,
    };
    this.#machines.set(id, {
      machine,
      env: body.env,
      boot: body.boot ?? null,
      idlePauseSeconds: body.idlePauseSeconds,
      used: false,
      counter: source?.counter ?? 0,
      timer: null,
      open: new Set(),
    });
    return machine;
  }

  async #lease(url: URL, req: IncomingMessage): Promise<{ held: Held; target: string; path: string }> {
    const match = /^\/m\/([^/]+)\/(agent|port\/\d+)(\/.*)$/.exec(url.pathname);
    if (!match?.[1] || !match[2] || !match[3]) throw new RouseFailure("route_not_found", "no such data route");
    const id = decodeURIComponent(match[1]);
    const held = this.#machines.get(id);
    const text = String(req.headers[hostHeaders.ticket]);
    const checked = (await this.#keys).map((key) => verify(key, Ticket, text, Date.now()));
    const ticket = (await Promise.all(checked)).find((one) => one !== null);
    if (!held || ticket?.m !== id || held.machine.state !== "running" || held.machine.generation !== ticket.g) {
      throw new RouseFailure("misdirected", "not that generation");
    }
    const label = labelOfId(id) ?? "";
    this.#requests.set(label, (this.#requests.get(label) ?? 0) + 1);
    held.used = true;
    return { held, target: match[2], path: match[3] };
  }

  async #data(url: URL, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { held, target, path } = await this.#lease(url, req);
    res.setHeader(hostHeaders.waited, "0");
    if (target === "agent" && this.#agentPort !== undefined) {
      const cut = (): void => void res.destroy();
      held.open.add(cut);
      res.once("close", () => held.open.delete(cut));
      return toAgent(this.#agentPort, path + url.search, req, res);
    }
    if (target !== "agent" && this.#hasPorts) return toAgent(Number(target.slice(5)), path + url.search, req, res);
    if (target === "port/9")
      throw new RouseFailure("port_not_listening", "nothing listens on port 9", { details: { port: 9 } });
    const isGateway = target === "port/8765" && path === "/status";
    if (isGateway || (target !== "agent" && /^\/in(?:\/|$)/.test(path))) {
      const program = this.#program(labelOfId(held.machine.id) ?? "");
      return program.take({ target, path: path + url.search, body: await bytesOf(req) }, req, res);
    }
    const label = labelOfId(held.machine.id) ?? "";
    // Of schedules; whatever else is asked of the agent is answered with what was asked.
    const isRun = String(req.headers["idempotency-key"]).startsWith("run-");
    if (target === "agent" && path.startsWith("/processes") && (isRun || this.#commands.has(label))) {
      const commands = this.#commandsOf(label);
      return commands.take(path, url.searchParams, await bytesOf(req), req, res);
    }
    if (target === "agent" && path === "/exec") {
      const body = (await bytesOf(req)).toString();
      const ran = this.#drills.run(label, held.machine, body);
      if (ran === "crash") return void (this.#crash(held), req.socket.destroy());
      if (ran) return json(res, 200, ran);
      return this.#echo(res, { target, path: path + url.search, body: Buffer.from(body) }, req, held);
    }
    switch (path) {
      case "/counter":
        held.counter += 1;
        return json(res, 200, { counter: held.counter, generation: held.machine.generation });
      case "/redirect":
        res.writeHead(302, {
          location: url.searchParams.get("to") ?? "/elsewhere",
          "set-cookie": url.searchParams.getAll("cookie"),
        });
        res.end();
        return;
      case "/own-421":
        res.writeHead(421, { "content-type": "text/plain" }).end("mine");
        return;
      case "/hang-up":
        req.socket.destroy();
        return;
      case "/events": {
        res.writeHead(200, { "content-type": "text/event-stream" });
        res.write("data: one\n\n");
        await new Promise<void>((resolve) => this.#holds.set(label, [...(this.#holds.get(label) ?? []), resolve]));
        res.end("data: two\n\n");
        return;
      }
      default:
        this.#echo(res, { target, path: path + url.search, body: await bytesOf(req) }, req, held);
    }
  }

  /** Answered with what was asked. */
  #echo(
    res: ServerResponse,
    asked: { target: string; path: string; body: Buffer },
    req: IncomingMessage,
    held: Held,
  ): void {
    const { target, path, body } = asked;
    json(res, 200, {
      ...{ target, method: req.method, path, headers: req.headers, bytes: body.length },
      sha256: createHash("sha256").update(body).digest("hex"),
      text: body.length < 10_000 ? body.toString() : null,
      generation: held.machine.generation,
    });
  }

  /** What is open to a machine ends when it sleeps or stops. */
  #cut({ machine, open }: Held): void {
    this.#sockets.cut(machine.id);
    for (const cut of open) cut();
  }

  #crash(held: Held): Machine {
    held.machine = { ...held.machine, state: "stopped", memory: "none", endReason: "vm_crashed" };
    this.#cut(held);
    this.#drills.forget(labelOfId(held.machine.id) ?? "");
    return held.machine;
  }

  #commandsOf(label: string): FakeCommands {
    const commands = this.#commands.get(label) ?? new FakeCommands();
    this.#commands.set(label, commands);
    return commands;
  }

  #program(label: string): FakeProgram {
    const program = this.#programs.get(label) ?? new FakeProgram();
    this.#programs.set(label, program);
    return program;
  }

  async #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const url = new URL(req.url ?? "/", "http://fake");
    let lease;
    try {
      lease = await this.#lease(url, req);
    } catch (fault) {
      const failure = failureOf(fault);
      const text = JSON.stringify(errorBody(failure));
      socket.end(
        `HTTP/1.1 ${statusOf(failure.code)} Refused\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\nconnection: close\r\n\r\n${text}`,
      );
      return;
    }
    const { held, target, path } = lease;
    const { id } = held.machine;
    if (target === "agent" && this.#agentPort !== undefined) {
      const cut = upgradeToAgent(this.#agentPort, path + url.search, req, socket, head);
      held.open.add(cut);
      socket.once("close", () => held.open.delete(cut));
      return;
    }
    if (this.#away.has(labelOfId(id) ?? "")) return void socket.destroy();
    this.#sockets.upgrade(labelOfId(id) ?? "", id, { target, path: path + url.search }, req, socket, head);
  }

  #refuse(res: ServerResponse, fault: unknown): void {
    const failure = failureOf(fault);
    json(res, statusOf(failure.code), errorBody(failure));
  }
}

function failureOf(fault: unknown): RouseFailure {
  return fault instanceof RouseFailure ? fault : new RouseFailure("internal_error", String(fault));
}

async function bytesOf(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of req as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function json(res: ServerResponse, status: number, body: object): void {
  res.writeHead(status, { "content-type": "application/json" });
  res.end(JSON.stringify(body));
}
