/** Programs that take requests for localhost only, as development servers do. */
import { beforeEach, describe, expect, it } from "vitest";
import { call, created, edge, heartbeat, secrets } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

const key = { authorization: `Bearer ${secrets.apiKey}` };
const base = (label: string) => `http://5173-${label}.rouse.test`;
const headersAt = async (url: string, headers: Record<string, string> = {}) =>
  (await (await edge(url, { headers: { ...key, ...headers } })).json<{ headers: Record<string, string> }>()).headers;

describe("a port of localhostPorts", () => {
  it("is asked as localhost, and told by whom; other ports are asked by their URL", async () => {
    const { name } = await created({ localhostPorts: [5173] });
    const own = base(name);
    const headers = await headersAt(`${own}/a`, { origin: own, referer: `${own}/page?x` });
    expect(headers).toMatchObject({
      "x-rouse-host": "localhost:5173",
      origin: "http://localhost:5173",
      referer: "http://localhost:5173/page?x",
      "x-forwarded-host": `5173-${name}.rouse.test`,
    });
    const plain = await headersAt(`http://${name}.rouse.test/`, { "x-rouse-host": "forged" });
    expect(plain["x-rouse-host"]).toBe(undefined);
  });

  it("still learns of other sites", async () => {
    const { name } = await created({ localhostPorts: [5173] });
    const other = { origin: "http://evil.test", referer: `${base(name)}.evil.test/` };
    expect(await headersAt(`${base(name)}/`, other)).toMatchObject(other);
  });

  it("redirects to its URL, and sets cookies for it", async () => {
    const { name } = await created({ localhostPorts: [5173] });
    const redirected = async (to: string, cookie = "") => {
      const query = `to=${encodeURIComponent(to)}&cookie=${encodeURIComponent(cookie)}&cookie=b%3D2`;
      return edge(`${base(name)}/redirect?${query}`, { headers: key, redirect: "manual" });
    };
    const answer = await redirected("http://localhost:5173/in?x=1#y", "a=1; Domain=localhost; HttpOnly");
    expect(answer.headers.get("location")).toBe("/in?x=1#y");
    expect(answer.headers.getSetCookie()).toEqual(["a=1; HttpOnly", "b=2"]);
    expect((await redirected("http://127.0.0.1:5173")).headers.get("location")).toBe("/");
    expect((await redirected("http://localhost:51730/x")).headers.get("location")).toBe("http://localhost:51730/x");
    expect((await redirected("https://elsewhere.test/")).headers.get("location")).toBe("https://elsewhere.test/");
    const byPath = await edge(`http://rouse.test/s/${name}/5173/redirect?to=http%3A%2F%2Flocalhost%3A5173%2Fin`, {
      ...{ headers: key, redirect: "manual" },
    });
    expect(byPath.headers.get("location")).toBe(`/s/${name}/5173/in`);
  });

  it("is shown, can be changed, and is a port, once", async () => {
    const { id, name } = await created({ localhostPorts: [3000] });
    const change = async (localhostPorts: number[]) => {
      const answer = await call("POST", `/v1/sandboxes/${id}:update`, { localhostPorts });
      return { status: answer.status, ports: (await answer.json<{ localhostPorts?: number[] }>()).localhostPorts };
    };
    expect(await change([5173, 3000])).toEqual({ status: 200, ports: [5173, 3000] });
    expect((await change([0, 8, 8])).status).toBe(400);
    expect((await headersAt(`${base(name)}/`))["x-rouse-host"]).toBe("localhost:5173");
  });
});
