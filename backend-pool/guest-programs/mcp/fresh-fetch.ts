/** `fetch` that keeps no connection: one that a sleep has broken must not cost the first request after it. */
import { request } from "node:http";
import { Readable } from "node:stream";

export function freshFetch(url: string | URL, init: RequestInit = {}): Promise<Response> {
  return new Promise((resolve, reject) => {
    const headers = Object.fromEntries(new Headers(init.headers));
    const { signal } = init;
    const sent = request(
      url,
      { method: init.method ?? "GET", headers, agent: false, ...(signal ? { signal } : {}) },
      (got) => {
        const status = got.statusCode ?? 502;
        const none = [101, 204, 205, 304].includes(status);
        if (none) got.resume();
        const pairs = Object.entries(got.headersDistinct).flatMap(([name, values = []]) =>
          values.map((value): [string, string] => [name, value]),
        );
        resolve(
          new Response(none ? null : (Readable.toWeb(got) as ReadableStream<Uint8Array>), { status, headers: pairs }),
        );
      },
    );
    sent.on("error", reject);
    sent.end(typeof init.body === "string" ? init.body : undefined);
  });
}
