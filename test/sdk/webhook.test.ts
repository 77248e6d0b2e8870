/** What receivers are given: whether a webhook is from Rouse, by the vectors that Standard Webhooks publishes. */
import { expect, it } from "vitest";
import { signedHeaders } from "../../durable/standard-webhooks.ts";
import { RouseError, verifyWebhook, type WebhookHeaders } from "../../sdk/src/index.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const payload = '{"test": 2432232314}';
const headers = {
  "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
  "webhook-timestamp": "1614265330",
  "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
};
const now = new Date(1_614_265_330_000);

const codeOf = (change: { payload?: string; headers?: WebhookHeaders; secret?: string; now?: Date }) =>
  verifyWebhook(change.payload ?? payload, change.headers ?? headers, change.secret ?? secret, {
    now: change.now ?? now,
  }).then(
    () => "verified",
    (fault: unknown) => (fault instanceof RouseError ? fault.code : String(fault)),
  );

it("takes what is signed rightly, in the forms that servers have headers and bodies", async () => {
  const verified = await verifyWebhook<{ test: number }>(payload, headers, secret, { now });
  expect(verified).toMatchObject({ id: headers["webhook-id"], sentAt: now, text: payload });
  expect(verified.json().test).toBe(2_432_232_314);
  const bytes = new TextEncoder().encode(payload);
  const forms: WebhookHeaders[] = [
    new Headers(headers),
    Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), [value]])),
  ];
  for (const form of forms) expect((await verifyWebhook(bytes, form, secret, { now })).text).toBe(payload);
  // While a secret is replaced there are two, on either side.
  const both = { ...headers, "webhook-signature": `v1a,AAAA v1,AAAA ${headers["webhook-signature"]}` };
  expect((await verifyWebhook(payload, both, ["whsec_AAAA", secret.slice(6)], { now })).id).toBe(headers["webhook-id"]);
});

it("signs as it verifies", async () => {
  const body = new Uint8Array(new TextEncoder().encode(payload));
  expect(await signedHeaders(headers["webhook-id"], body, [secret], now.getTime())).toEqual(headers);
});

it("refuses whatever is not", async () => {
  expect(await codeOf({ payload: '{"test": 2432232315}' })).toBe("signature_invalid");
  expect(await codeOf({ secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" })).toBe("signature_invalid");
  for (const change of [
    { "webhook-id": "msg_other" },
    { "webhook-timestamp": "1614265331" },
    { "webhook-timestamp": "soon" },
    { "webhook-signature": "" },
    { "webhook-signature": "v1,nonsense!" },
    { "webhook-signature": headers["webhook-signature"].replace("v1,", "v2,") },
    { "webhook-signature": headers["webhook-signature"].replace("v1,g", "v1,h") },
  ])
    expect(await codeOf({ headers: { ...headers, ...change } })).toBe("signature_invalid");
  expect(await codeOf({ headers: {} })).toBe("signature_invalid");
  for (const seconds of [-301, 301])
    expect(await codeOf({ now: new Date(now.getTime() + seconds * 1000) })).toBe("signature_expired");
  for (const seconds of [-299, 299])
    expect(await codeOf({ now: new Date(now.getTime() + seconds * 1000) })).toBe("verified");
  for (const bad of ["", "whsec_", "whsec_***"]) expect(await codeOf({ secret: bad })).toBe("invalid_argument");
});
