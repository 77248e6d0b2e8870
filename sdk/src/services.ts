/** Services: programs that a sandbox starts with and that are kept running. */
import { Resume, ServiceLogs as ServiceLogsSchema, ServiceStatus as ServiceStatusSchema } from "../contract/boot.ts";
import type { ServiceLogs, ServiceStatus } from "../contract/boot.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

/**
 * Services of a sandbox. Which ones it has, its `services` say, which are set with `create` and `update`.
 *
 * @example
 * await sandbox.update({ services: [{ name: "web", command: "node server.js", port: 8080 }] });
 * for (const { name, state, restarts } of await sandbox.services.list()) console.log(name, state, restarts);
 */
export class Services {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /** As last known, in the order that they start. It does not wake the sandbox. */
  async list(options: RequestOptions = {}): Promise<ServiceStatus[]> {
    return parseAnswer(Resume, await this.#remote.get(":resume", options)).services;
  }

  /** Stop one and start it again. Wakes the sandbox. @throws NotFoundError `not_found` when it has no such service */
  async restart(name: string, options: RequestOptions = {}): Promise<ServiceStatus> {
    const path = `/services/${encodeURIComponent(name)}:restart`;
    return parseAnswer(ServiceStatusSchema, await this.#remote.post(path, {}, options));
  }

  /**
   * The last that one wrote, 64 KiB at most, of all that ran under its name since the guest agent began. Wakes the
   * sandbox. @throws NotFoundError `not_found`
   */
  async logs(name: string, options: RequestOptions = {}): Promise<ServiceLogs> {
    return parseAnswer(
      ServiceLogsSchema,
      await this.#remote.get(`/services/${encodeURIComponent(name)}/logs`, options),
    );
  }
}
