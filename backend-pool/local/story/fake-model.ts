/** A stand-in for a provider's model endpoint: speaks as Anthropic's Messages API does, streaming, and notes who asked. */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Authority } from "../../egress/ca.ts";

/** Where clients of the provider look for it. */
export const MODEL_HOST = "api.anthropic.com";

export interface Asked {
  /** The key as it arrived. */
  readonly key: string;
  readonly body: string;
}

export interface FakeModel {
  readonly asked: readonly Asked[];
  /** Settings of a host agent that lead the provider's name here. */
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

export async function startFakeModel(dir: string): Promise<FakeModel> {
  const asked: Asked[] = [];
  const authority = await Authority.open(join(dir, "model-authority.pem"));
  const caFile = join(dir, "model-ca.pem");
  await writeFile(caFile, authority.pem, { mode: 0o600 });
  const server = createServer({ SNICallback: (name, done) => done(null, authority.context(name)) }, (req, res) => {
    void answer(req, res, asked).catch(() => res.destroy());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    asked,
    env: {
      ROUSE_EGRESS_HOSTS: JSON.stringify({ [`${MODEL_HOST}:443`]: `127.0.0.1:${port}` }),
      ROUSE_EGRESS_UPSTREAM_CA: caFile,
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function answer(req: IncomingMessage, res: ServerResponse, asked: Asked[]): Promise<void> {
  const body = await text(req);
  if (req.method !== "POST" || !req.url?.startsWith("/v1/messages")) {
    res.writeHead(404, { "content-type": "application/json" }).end("{}");
    return;
  }
  asked.push({ key: String(req.headers["x-api-key"] ?? ""), body });
  const { model = "model", stream = false } = JSON.parse(body) as { model?: string; stream?: boolean };
  const said = `Answer number ${asked.length}.`;
  const usage = { input_tokens: 10, output_tokens: 5 };
  const head = { id: `msg_${asked.length}`, type: "message", role: "assistant", model };
  if (!stream) {
    const whole = {
      ...head,
      content: [{ type: "text", text: said }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage,
    };
    res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(whole));
    return;
  }
  res.writeHead(200, { "content-type": "text/event-stream" });
  const events = [
    { type: "message_start", message: { ...head, content: [], stop_reason: null, stop_sequence: null, usage } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: said } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 5 } },
    { type: "message_stop" },
  ];
  for (const event of events) res.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  res.end();
}
