/** The volumes of a sandbox: plugged in and out, copied, grown. Whose they are is for the account's volumes to say. */
import type { CreateVolumeMount } from "../../sdk/contract/volume.ts";
import { refuse, type Result } from "../result.ts";
import type { Change } from "./api.ts";
import type { Engine } from "./engine.ts";
import type { HostClient } from "./host-client.ts";
import type { SandboxRecord } from "./record.ts";

export class Volumes {
  readonly #engine: Engine;
  readonly #env: Env;
  readonly #host: HostClient;

  constructor(engine: Engine, env: Env, host: HostClient) {
    this.#engine = engine;
    this.#env = env;
    this.#host = host;
  }

  async attach(
    _record: SandboxRecord,
    _input: CreateVolumeMount,
    _change: Change,
  ): Promise<Result<{ attachmentId: string }>> {
    return refuse("unavailable", "not yet");
  }

  async detach(_record: SandboxRecord, _attachment: string): Promise<Result<object>> {
    return refuse("unavailable", "not yet");
  }

  async resize(_record: SandboxRecord, _attachment: string, _sizeMiB: number): Promise<Result<object>> {
    return refuse("unavailable", "not yet");
  }

  async copy(_record: SandboxRecord, _attachment: string, _backup: string): Promise<Result<{ stored: string | null }>> {
    return refuse("unavailable", "not yet");
  }
}
