/** A program on Node comes to trust what its machine trusts, though it began before. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { Authority } from "../../backend-pool/egress/ca.ts";

const module = fileURLToPath(new URL("../../backend-pool/images/agents/agent-trust.ts", import.meta.url));
/** Says for each line that it reads whether the server is trusted. */
const PROGRAM = `
const { createInterface } = process.getBuiltinModule("node:readline");
createInterface({ input: process.stdin }).on("line", async (url) => {
  console.log(await fetch(url).then((answer) => answer.text(), (fault) => fault.cause.code));
});
`;

test("certificates that are put in place later count, for a program that has used TLS already", async () => {
  const dir = await mkdtemp(join(tmpdir(), "rouse-trust-"));
  const authority = await Authority.open(join(dir, "authority.pem"));
  const server = createServer({ SNICallback: (name, done) => done(null, authority.context(name)) }, (_req, res) =>
    res.end("trusted"),
  ).listen(0, "127.0.0.1");
  await once(server, "listening");
  const file = join(dir, "certificates.pem");
  await writeFile(file, "");
  const child = spawn(process.execPath, ["--import", module, "--input-type=module", "-e", PROGRAM], {
    env: { ...process.env, NODE_EXTRA_CA_CERTS: file },
    stdio: ["pipe", "pipe", "inherit"],
  });
  try {
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const url = `https://localhost:${(server.address() as AddressInfo).port}/\n`;
    const asked = async () => {
      child.stdin.write(url);
      return String((await lines.next()).value);
    };
    expect(await asked()).not.toBe("trusted");
    await writeFile(`${file}.part`, authority.pem);
    await rename(`${file}.part`, file);
    await expect.poll(asked, { timeout: 30_000 }).toBe("trusted");
  } finally {
    child.kill("SIGKILL");
    server.closeAllConnections();
    server.close();
    await rm(dir, { recursive: true, force: true });
  }
});
