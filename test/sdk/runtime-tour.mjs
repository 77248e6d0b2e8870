// What is tried of the SDK in each JavaScript runtime, with nothing but what they share. Answers what was seen, as JSON.
import { RouseError, Rouse, Sandbox, verifyWebhook } from "rouse";

/** @param {{ baseUrl: string, apiKey: string }} options */
export async function tour(options) {
  const client = new Rouse(options);
  const seen = {};
  const sandbox = await Sandbox.getOrCreate("demo", {}, { client });
  // Not every runtime knows `await using`, which does this.
  try {
    seen.name = sandbox.info.name;
    seen.exec = (await sandbox.exec("echo hi")).stdout;
    seen.streamed = "";
    for await (const event of sandbox.execStream("long")) if ("data" in event) seen.streamed += event.data;
    const notes = await sandbox.files.read("notes");
    seen.bytes = [...notes];
    const recall = await sandbox.interpreter.run("notes");
    seen.recall = recall.results[0]?.data["text/plain"];
    // A program without the key, whose first token is over.
    const { token, ...session } = await sandbox.sessions.create({ scopes: ["exec"], servers: true });
    const tokens = ["rs_default_over", token];
    const guest = Sandbox.fromSession({ ...session, token: () => tokens.shift() });
    seen.session = [(await guest.exec("echo hi")).stdout, tokens.length];
  } finally {
    await sandbox[Symbol.asyncDispose]();
  }
  seen.missing = await client.sandboxes.get("nobody").catch((fault) => [fault instanceof RouseError, fault.code]);
  const headers = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  };
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const now = new Date(1_614_265_330_000);
  seen.webhook = (await verifyWebhook('{"test": 2432232314}', headers, secret, { now })).json().test;
  seen.forged = await verifyWebhook('{"test": 1}', headers, secret, { now }).catch((fault) => fault.code);
  return seen;
}
