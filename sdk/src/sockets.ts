/** Held sockets: WebSockets that stay open while the sandbox sleeps. */
import { ClosedSocket as ClosedSocketSchema, HeldSocketList } from "../contract/socket.ts";
import type { ClosedSocket, HeldSocket } from "../contract/socket.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

/**
 * Held sockets of a sandbox. Which ones are held, the sandbox's `sockets` say: rules that are set with `create` and
 * `update`.
 *
 * @example
 * await sandbox.update({ sockets: [{ path: "/ws" }] });
 * for (const { id, state, buffered } of await sandbox.sockets.list()) console.log(id, state, buffered);
 */
export class Sockets {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /** Those that are open, the oldest first. It does not wake the sandbox. */
  async list(options: RequestOptions = {}): Promise<HeldSocket[]> {
    return parseAnswer(HeldSocketList, await this.#remote.get("/sockets", options)).data;
  }

  /** Close one, for its client (code 1001) and for the program. @throws NotFoundError `socket_not_found` */
  async close(id: string, options: RequestOptions = {}): Promise<ClosedSocket> {
    return parseAnswer(ClosedSocketSchema, await this.#remote.delete(`/sockets/${encodeURIComponent(id)}`, options));
  }
}
