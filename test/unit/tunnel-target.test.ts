import { describe, it } from "vitest";
import { parseTarget } from "../../backend-pool/http/tunnel.ts";

const id = "agent~abcdefghijkl";

describe("a data route", () => {
  it.for([
    [`/m/${id}/agent/exec?x=1`, { machine: id, port: null, path: "/exec?x=1" }],
    [`/m/agent%7Eabcdefghijkl/port/8080/a/b`, { machine: id, port: 8080, path: "/a/b" }],
    [`/m/${id}/port/8080`, { machine: id, port: 8080, path: "/" }],
    [`/m/${id}/port/8080?q`, { machine: id, port: 8080, path: "/?q" }],
    [`/m/${id}/port/65535/`, { machine: id, port: 65_535, path: "/" }],
  ] as const)("%s names a place in a guest", ([url, target], { expect }) => {
    expect(parseTarget(url)).toEqual(target);
  });

  it.for([`/m/${id}`, `/m//agent/x`, `/m/${id}/agentx`, `/m/${id}/port/x/`, `/machines`])(
    "%s is none",
    (url, { expect }) => {
      expect(() => parseTarget(url)).toThrow("no such data route");
    },
  );

  it.for(["0", "65536", "99999", "10800"])("port %s is no port of a sandbox", (port, { expect }) => {
    expect(() => parseTarget(`/m/${id}/port/${port}/`)).toThrow(`${port} is not a port`);
  });
});
