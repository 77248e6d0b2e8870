/** Control routes: what the edge's objects ask of this host. Every call carries the host secret. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { parseOrFail, RouseFailure } from "../../sdk/contract/errors.ts";
import {
  CaptureMachine,
  ConfigureMachine,
  CopyVolume,
  CreateMachine,
  DiffStates,
  GrowVolume,
  hostPaths,
  machineVerbs,
  PauseMachine,
  PlugVolume,
  Revoke,
  RunMachine,
  SettleMachine,
  StopMachine,
  UnplugVolume,
  volumeVerbs,
  type Machine,
  type MachineVerb,
  type VolumeVerb,
} from "../../sdk/contract/host.ts";
import { drillPaths, KillMachine, KillPart } from "../../sdk/contract/host-drill.ts";
import { SandboxId, SnapshotId } from "../../sdk/contract/names.ts";
import type { Machines } from "../machine/machines.ts";
import type { HostDrills } from "./drills.ts";
import type { Revocations } from "./revocations.ts";

const BODY_LIMIT = 262_144;

export class Control {
  readonly #machines: Machines;
  readonly #revocations: Revocations;
  readonly #secret: Buffer;
  readonly #about: () => Promise<object>;
  readonly #drills: HostDrills | null;

  constructor(
    machines: Machines,
    revocations: Revocations,
    controlSecret: string,
    about: () => Promise<object>,
    drills: HostDrills | null = null,
  ) {
    this.#machines = machines;
    this.#revocations = revocations;
    this.#secret = digest(controlSecret);
    this.#about = about;
    this.#drills = drills;
  }

  async request(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const path = new URL(req.url ?? "/", "http://host").pathname;
    if (path === "/healthz") return answer(res, { ok: true });
    const key = /^Bearer (.+)$/.exec(req.headers.authorization ?? "")?.[1] ?? "";
    if (!timingSafeEqual(digest(key), this.#secret)) {
      throw new RouseFailure("unauthorized", "The control secret is missing or wrong.");
    }
    if (path === "/about" && req.method === "GET") return answer(res, await this.#about());
    if (path === "/machines" && req.method === "GET") return answer(res, { data: this.#machines.list() });
    if (path === hostPaths.revoke && req.method === "POST") {
      this.#revocations.revoke(parseOrFail(Revoke, await jsonBody(req)).keyIds);
      return answer(res, { ok: true });
    }
    if (path === drillPaths.parts) return answer(res, await this.#drill(req));
    if (path === hostPaths.diffs && req.method === "POST")
      return answer(res, await this.#machines.diff(parseOrFail(DiffStates, await jsonBody(req))));
    const capture = /^\/captures\/([^/]+)$/.exec(path)?.[1];
    if (capture !== undefined && req.method === "DELETE") {
      await this.#machines.dropCapture(parseOrFail(SnapshotId, capture, "copy"));
      return answer(res, { id: capture, deleted: true });
    }
    const match = /^\/machines\/([^/:]+)(?::([a-z]+))?$/.exec(path);
    if (!match?.[1]) throw new RouseFailure("route_not_found", `There is no ${req.method} ${path}.`);
    const id = parseOrFail(SandboxId, decodeURIComponent(match[1]), "machine id");
    if (match[2] === "capture" && req.method === "POST")
      return answer(res, await this.#machines.capture(id, parseOrFail(CaptureMachine, await jsonBody(req))));
    if (match[2] === "kill" && req.method === "POST")
      return answer(res, await this.#machines.kill(id, parseOrFail(KillMachine, await jsonBody(req)).generation));
    const volumeVerb = volumeVerbs.find((known) => known === match[2]);
    if (volumeVerb && req.method === "POST")
      return answer(res, await this.#actOnVolume(id, volumeVerb, await jsonBody(req)));
    if (match[2] !== undefined) {
      const verb = machineVerbs.find((known) => known === match[2]);
      if (!verb || req.method !== "POST")
        throw new RouseFailure("route_not_found", `There is no ${req.method} ${path}.`);
      return answer(res, await this.#act(id, verb, await jsonBody(req)));
    }
    switch (req.method) {
      case "GET":
        return answer(res, this.#machines.describe(id));
      case "PUT":
        return answer(res, await this.#machines.create(id, parseOrFail(CreateMachine, await jsonBody(req))));
      case "DELETE":
        await this.#machines.destroy(id, generationOf(req.url));
        return answer(res, { id, deleted: true });
      default:
        throw new RouseFailure("method_not_allowed", `${req.method} does not apply to a machine.`);
    }
  }

  async #drill(req: IncomingMessage): Promise<object> {
    if (!this.#drills) throw new RouseFailure("unavailable", "This host takes no part in drills.");
    return req.method === "POST" ? this.#drills.take(parseOrFail(KillPart, await jsonBody(req))) : this.#drills.state;
  }

  #actOnVolume(id: string, verb: VolumeVerb, body: unknown): Promise<Machine> {
    switch (verb) {
      case "plug":
        return this.#machines.plug(id, parseOrFail(PlugVolume, body));
      case "unplug":
        return this.#machines.unplug(id, parseOrFail(UnplugVolume, body));
      case "grow":
        return this.#machines.grow(id, parseOrFail(GrowVolume, body));
      case "copy":
        return this.#machines.copy(id, parseOrFail(CopyVolume, body));
    }
  }

  #act(id: string, verb: MachineVerb, body: unknown): Promise<Machine> {
    switch (verb) {
      case "wake":
        return this.#machines.wake(id, parseOrFail(RunMachine, body));
      case "boot":
        return this.#machines.boot(id, parseOrFail(RunMachine, body));
      case "pause":
        return this.#machines.pause(id, parseOrFail(PauseMachine, body));
      case "stop":
        return this.#machines.stop(id, parseOrFail(StopMachine, body).generation);
      case "configure":
        return this.#machines.configure(id, parseOrFail(ConfigureMachine, body));
      case "settle":
        return this.#machines.settle(id, parseOrFail(SettleMachine, body).depth);
    }
  }
}

/** `?generation=N` of a removal; undefined, any, without it. */
function generationOf(url: string | undefined): number | undefined {
  const text = new URL(url ?? "/", "http://host").searchParams.get("generation");
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

async function jsonBody(req: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_LIMIT)
      throw new RouseFailure("payload_too_large", `A control body has at most ${BODY_LIMIT} bytes.`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString() || "{}");
  } catch (fault) {
    throw new RouseFailure("invalid_request", "The body is not JSON.", { cause: fault });
  }
}

function answer(res: ServerResponse, body: object): void {
  const text = JSON.stringify(body);
  res.writeHead(200, { "content-type": "application/json; charset=utf-8", "content-length": Buffer.byteLength(text) });
  res.end(text);
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
