/** The few calls the host itself makes to a guest agent. */
import { request } from "node:http";
import { GuestFacts } from "../../sdk/contract/guest.ts";
import type { Endpoint } from "./driver.ts";

/** @throws when the agent does not answer in time, or not with facts */
export async function agentFacts(at: Endpoint, limitMs = 10_000): Promise<GuestFacts> {
  return GuestFacts.parse(JSON.parse(await call(at, "GET", "/facts", undefined, limitMs)));
}

/** What processes are given from now on. */
export async function configureAgent(at: Endpoint, env: Record<string, string>, limitMs = 30_000): Promise<void> {
  await call(at, "PUT", "/configure", { env }, limitMs);
}

/** Let the agent take the paths of first requests, so that clones of its machine find them warm. */
export async function warmUpAgent(at: Endpoint, limitMs: number): Promise<void> {
  await call(at, "POST", "/warm-up", {}, limitMs);
}

/** Wait for the first answer of an agent that boots. */
export async function agentAnswers(at: Endpoint, limitMs: number): Promise<void> {
  const end = performance.now() + limitMs;
  for (;;) {
    try {
      await agentFacts(at, 5000);
      return;
    } catch (fault) {
      if (performance.now() > end) throw new Error("the guest agent does not answer", { cause: fault });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

function call(at: Endpoint, method: string, path: string, body: unknown, limitMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers =
      text === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const req = request({ ...at, method, path, headers, agent: false, signal: AbortSignal.timeout(limitMs) }, (res) => {
      const chunks: Buffer[] = [];
      res.on("data", (chunk: Buffer) => chunks.push(chunk));
      res.on("error", reject);
      res.on("end", () => {
        const answer = Buffer.concat(chunks).toString();
        if (res.statusCode === 200 || res.statusCode === 204) resolve(answer);
        else reject(new Error(`${method} ${path}: ${res.statusCode} ${answer.slice(0, 300)}`));
      });
    });
    req.on("error", reject);
    req.end(text);
  });
}
