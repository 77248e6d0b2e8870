/** A TCP proxy whose wire can be cut: what is under way ends, and nothing comes through until it is mended. */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

export class CutProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(targetPort: number) {
    this.#server = createServer((socket) => {
      socket.on("error", () => undefined);
      // As of a cut wire nothing is heard: the connection is neither refused nor answered.
      this.#track(socket);
      if (this.#isCut) return;
      const upstream = connect(targetPort, "127.0.0.1");
      this.#track(upstream);
      upstream.on("error", () => socket.destroy());
      socket.pipe(upstream).pipe(socket);
      socket.once("close", () => upstream.destroy());
      upstream.once("close", () => socket.destroy());
    });
  }

  static async open(targetPort: number): Promise<CutProxy> {
    const proxy = new CutProxy(targetPort);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  cut(isCut: boolean): void {
    this.#isCut = isCut;
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut(true);
    this.#server.close();
    await once(this.#server, "close");
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }
}
