/** Agents: sandboxes with a known runtime in them, its keys brokered and its messages taken while it sleeps. */
import { DELIVERY_SECRET_FILE, ShownPresetList, TRIGGER_PROGRAM, type ShownPreset } from "../contract/agent-preset.ts";
import { presetOf } from "../contract/presets/index.ts";
import type { DeletedSandbox } from "../contract/sandbox.ts";
import { AGENT_HOOK, AGENT_LABEL, planAgent, SETUP_LABEL, type AgentPlan, type CreateAgent } from "./agent-plan.ts";
import type { Rouse } from "./client.ts";
import { InvalidRequestError, NotFoundError, RouseError } from "./errors.ts";
import { parseAnswer } from "./remote.ts";
import type { Sandbox } from "./sandbox.ts";
import type { RequestOptions } from "./transport.ts";

/** An agent that was made. */
export interface NewAgent {
  sandbox: Sandbox;
  /** Where messages for it are sent to, signed with `secret` (Standard Webhooks); shown this once. null: it takes none. */
  hook: { url: string; secret: string } | null;
}

export interface AgentMessage extends RequestOptions {
  /** Two messages of one id are one; made up unless given. */
  id?: string | undefined;
  /** Longest wait for the agent's work on it, seconds; 300 unless given. */
  timeoutSeconds?: number | undefined;
}

const FOLDER = DELIVERY_SECRET_FILE.slice(0, DELIVERY_SECRET_FILE.lastIndexOf("/"));

/**
 * Agents of an account. Each is a sandbox, and everything that a sandbox has goes for it as well.
 *
 * @example
 * const { sandbox, hook } = await rouse.agents.create({ name: "ada", runtime: "openclaw", keys: { anthropic: key } });
 * await rouse.agents.trigger("ada", "What is on today?");
 */
export class Agents {
  readonly #rouse: Rouse;

  /** @internal */
  constructor(rouse: Rouse) {
    this.#rouse = rouse;
  }

  /** The presets that come with it, and whether a host has their image. */
  async presets(options: RequestOptions = {}): Promise<ShownPreset[]> {
    const call = { method: "GET", path: "/v1/agent-presets", ...options } as const;
    return parseAnswer(ShownPresetList, await this.#rouse.transport.json(call)).data;
  }

  /**
   * Make an agent: a sandbox of its runtime's image, its keys as secrets of the sandbox, and a hook for its messages.
   * Everything is checked before anything is made. Where it breaks off, the same call again goes on with what is there.
   * @throws InvalidRequestError `unknown_preset`, `wrong_provider`, `invalid_request`; `invalid_image` where no host has
   *   its image
   * @throws ConflictError `name_taken` for a sandbox that is not one of these, or is whole already
   */
  async create(input: CreateAgent, options: RequestOptions = {}): Promise<NewAgent> {
    const plan = planAgent(input);
    const signal = { signal: options.signal };
    const sandbox = await this.#sandbox(plan, signal);
    for (const { name, input: secret } of plan.secrets) await sandbox.secrets.set(name, secret, signal);
    const hook = plan.hook === null ? null : await this.#hook(sandbox, plan, signal);
    const { [SETUP_LABEL]: _, ...labels } = sandbox.info.labels;
    await sandbox.update({ labels }, signal);
    return { sandbox, hook };
  }

  /** The account's agents, the oldest first. */
  async list(options: RequestOptions = {}): Promise<Sandbox[]> {
    const all = await this.#rouse.sandboxes.list({ limit: 100 }, options);
    return (await all.toArray()).filter((sandbox) => runtimeOf(sandbox) !== null);
  }

  /** By id or name, without waking it. @throws NotFoundError `not_found`, also for a sandbox that is no agent */
  async get(idOrName: string, options: RequestOptions = {}): Promise<Sandbox> {
    const sandbox = await this.#rouse.sandboxes.get(idOrName, options);
    if (runtimeOf(sandbox) !== null) return sandbox;
    throw new NotFoundError({ code: "not_found", status: 404, message: `${idOrName} is a sandbox, but no agent.` });
  }

  /** Delete it with its keys, its hook and its disk. */
  async delete(idOrName: string, options: RequestOptions = {}): Promise<DeletedSandbox> {
    const sandbox = await this.get(idOrName, options);
    return await this.#rouse.sandboxes.delete(sandbox.id, options);
  }

  /**
   * Give an agent a message, waking it, and wait until it has worked on it. Answers what its runtime says of that. For
   * messages that must not be lost while this program ends, send them to its hook.
   * @throws InvalidRequestError `invalid_argument` for a runtime that takes no messages
   * @throws CommandError when the runtime refused it, or took too long
   */
  async trigger(idOrName: string, message: string, given: AgentMessage = {}): Promise<string> {
    const { id = `msg_${crypto.randomUUID()}`, timeoutSeconds = 300, ...options } = given;
    const sandbox = await this.get(idOrName, options);
    const runtime = runtimeOf(sandbox) ?? "";
    const preset = presetOf(runtime);
    if (preset && preset.trigger === undefined)
      throw new InvalidRequestError({
        ...{ code: "invalid_argument", message: `${preset.title} takes no messages this way.` },
        hint: preset.note,
      });
    const { stdout } = await sandbox.exec(["node", TRIGGER_PROGRAM, "send", id], {
      ...{ stdin: JSON.stringify({ message }), timeoutMs: timeoutSeconds * 1000, check: true, ...options },
    });
    return stdout;
  }

  /** The plan's sandbox: a new one, or the one that a call before this one began. */
  async #sandbox({ sandbox, preset }: AgentPlan, options: RequestOptions): Promise<Sandbox> {
    try {
      return await this.#rouse.sandboxes.create(sandbox, options);
    } catch (error) {
      if (!(error instanceof RouseError)) throw error;
      if (error.code === "invalid_image") throw noImage(error, preset.id);
      if (error.code !== "name_taken") throw error;
      const found = await this.#rouse.sandboxes.get(sandbox.name, options);
      const { labels } = found.info;
      if (labels[AGENT_LABEL] !== preset.id || labels[SETUP_LABEL] === undefined) throw error;
      return found;
    }
  }

  async #hook(sandbox: Sandbox, { hook, preset }: AgentPlan, options: RequestOptions): Promise<NewAgent["hook"]> {
    if (hook === null) return null;
    const before = (await sandbox.hooks.list(options)).find(({ name }) => name === AGENT_HOOK);
    // Its secrets were shown to a call that broke off.
    if (before) await sandbox.hooks.delete(before.id, options);
    const { url, secret, deliverySecret } = await sandbox.hooks.create(hook, options);
    if (preset.trigger?.body !== undefined && deliverySecret !== null) {
      await sandbox.files.mkdir(FOLDER, options);
      await sandbox.files.write(DELIVERY_SECRET_FILE, deliverySecret, { mode: 0o600, ...options });
    }
    return { url: url ?? "", secret: secret ?? "" };
  }
}

/** The preset of an agent's sandbox; null for a sandbox that is none. */
export function runtimeOf(sandbox: Sandbox): string | null {
  return sandbox.info.labels[AGENT_LABEL] ?? null;
}

function noImage(error: RouseError, preset: string): InvalidRequestError {
  return new InvalidRequestError({
    ...{ code: error.code, status: error.status, details: error.details, requestId: error.requestId },
    message: `No host has the image of ${preset} yet.`,
    hint: `Its operator makes it once: npm start -- --agents ${preset}, or ROUSE_AGENTS=${preset} for a host agent. For a preset of your own: the path of its file.`,
  });
}
