/** Programs of this machine trust what its host signs: it speaks in the name of places that get a secret from it. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import type { HostTunnel } from "./tunnel.ts";

export class Trust {
  readonly #program: string;
  #taken = "";

  /** @param program takes certificates on stdin and makes the system trust them; run as root */
  constructor(program: string) {
    this.#program = program;
  }

  /** Ask the host for its certificates, and take them up if they are new. */
  async renew(tunnel: HostTunnel): Promise<void> {
    const pem = await tunnel.fetch("GET", "/ca.pem");
    const digest = createHash("sha256").update(pem).digest("hex");
    if (!pem.includes("-----BEGIN CERTIFICATE-----") || digest === this.#taken) return;
    await new Promise<void>((resolve, reject) => {
      const child = spawn("sudo", ["-n", this.#program], { stdio: ["pipe", "ignore", "inherit"] });
      child.on("error", reject);
      child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`${this.#program}: ${code}`))));
      child.stdin.on("error", () => undefined);
      child.stdin.end(pem);
    });
    this.#taken = digest;
  }
}
