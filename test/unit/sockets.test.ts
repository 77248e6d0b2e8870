/** The rules of held sockets: what a program has, what ends what, and where frames end. */
import { describe, expect, it } from "vitest";
import { closeFrame, FrameReader, frameOf, opcodes } from "../../backend-pool/http/frames.ts";
import { afterClient, afterProgram, cut, giveUpReason, retryMs, verdictOn } from "../../durable/sockets/closing.ts";
import { gave, lost, nextOf, noFlow, opened, overflowOf, pendingOf, told, took } from "../../durable/sockets/flow.ts";
import { isAdmitted } from "../../durable/sockets/record.ts";
import { errorCodes } from "../../sdk/contract/error-codes.ts";
import { socketLimits, socketRuleFor, SocketRules } from "../../sdk/contract/socket.ts";
import { seeded } from "../support/random.ts";

/** A program that skips what it had, as the guide says: it counts messages, and is told what it is known to have had. */
class Program {
  readonly had: number[] = [];
  readonly got: number[] = [];
  #skip = 0;
  connect(delivered: number): void {
    this.#skip = this.had.length - delivered;
  }
  take(message: number): void {
    this.got.push(message);
    if (this.#skip > 0) this.#skip--;
    else this.had.push(message);
  }
}

describe("what a program has of a client's messages", () => {
  it("is all of them, once and in order, over 300 seeded lives of sockets with breaks, sleeps and evictions", () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = seeded(seed);
      const program = new Program();
      let flow = noFlow;
      // On their way to the program, and its word that they came on the way back.
      let way: (number | "ours")[] = [];
      let arrived = 0;
      let breaks = 0;
      const open = () => {
        const ours = random() < 0.5 ? 1 : 0;
        flow = opened(flow, ours);
        [way, arrived] = [ours === 1 ? ["ours"] : [], 0];
        program.connect(flow.reached);
      };
      const pump = () => {
        for (let number = nextOf(flow); number !== null; number = nextOf(flow)) {
          way.push(number);
          flow = gave(flow);
        }
      };
      const arrive = () => {
        const first = way.shift();
        if (first === undefined) return;
        arrived++;
        if (first !== "ours") program.take(first);
      };
      const steps: (() => void)[] = [
        () => (flow = took(flow)),
        () => (flow = took(flow)),
        () => {
          if (!flow.open) open();
        },
        pump,
        arrive,
        arrive,
        () => (flow = told(flow, arrived)),
        // The connection breaks, or the machine sleeps: what is on its way is gone.
        () => {
          if (flow.open) breaks++;
          flow = lost(flow);
        },
        // The object begins anew with what it stored.
        () => {
          if (flow.open) breaks++;
          flow = { taken: flow.taken, reached: flow.reached, open: null };
        },
      ];
      for (let n = 0; n < 120; n++) {
        const step = steps[Math.floor(random() * steps.length)];
        step?.();
        expect(flow.reached).toBeLessThanOrEqual(program.had.length);
        expect(pendingOf(flow)).toBeGreaterThanOrEqual(0);
      }
      if (!flow.open) open();
      pump();
      while (way.length > 0) arrive();
      flow = told(flow, arrived);
      expect([seed, pendingOf(flow)]).toEqual([seed, 0]);
      expect(program.had).toEqual(Array.from({ length: flow.taken }, (_, n) => n + 1));
      // Only a break has anything come twice.
      expect(breaks > 0 || program.got.length === program.had.length).toBe(true);
    }
  });

  it("is no more than was given to the connection, whatever its host says", () => {
    const flow = gave(opened(took(took(noFlow)), 0));
    expect(told(flow, 9).reached).toBe(1);
    expect(told(flow, -4).reached).toBe(0);
    expect(told(told(flow, 1), 0).reached).toBe(1);
    expect(told(took(noFlow), 1).reached).toBe(0);
  });

  it("waits within limits of messages, of bytes, and of all sockets together", () => {
    const { frameBytesMax, bufferedFramesMax, bufferedBytesMax, bufferedBytesMaxOfAll } = socketLimits;
    const free = { frames: 0, bytes: 0, bytesOfAll: 0 };
    expect(overflowOf(free, frameBytesMax)).toBeNull();
    expect(overflowOf(free, frameBytesMax + 1)?.code).toBe(1009);
    expect(overflowOf({ ...free, frames: bufferedFramesMax - 1 }, 1)).toBeNull();
    expect(overflowOf({ ...free, frames: bufferedFramesMax }, 1)?.code).toBe(1013);
    expect(overflowOf({ ...free, bytes: bufferedBytesMax - 1 }, 1)).toBeNull();
    expect(overflowOf({ ...free, bytes: bufferedBytesMax }, 1)?.code).toBe(1013);
    expect(overflowOf({ ...free, bytesOfAll: bufferedBytesMaxOfAll }, 1)?.code).toBe(1013);
  });
});

describe("the end of a held socket", () => {
  it("is passed on where it was meant, and a break is not", () => {
    const event = (code: number, wasClean = true) => ({ code, reason: "why", wasClean });
    expect(afterProgram(event(4001))).toEqual({ code: 4001, reason: "why" });
    expect(afterProgram(event(1005))).toEqual({ code: null, reason: "why" });
    for (const broken of [event(1006, false), event(1006), event(1015), event(1000, false)])
      expect(afterProgram(broken)).toBeNull();
    expect(afterClient(4001, "why")).toEqual({ code: 4001, reason: "why" });
    expect(afterClient(1005, "")).toEqual({ code: null, reason: "" });
    expect(afterClient(1006, "lost")).toEqual({ code: 1001, reason: "" });
  });

  it("comes for every error with a code that may be sent, or not at all", () => {
    for (const code of errorCodes) {
      const verdict = verdictOn(code);
      expect(["retry", "later", "asleep", 1001, 1008, 1011]).toContain(
        typeof verdict === "object" ? verdict.end : verdict,
      );
    }
    expect([retryMs(0), retryMs(99)]).toEqual([200, null]);
  });

  it("says what was not delivered, in a reason that fits", () => {
    expect(giveUpReason("port_not_listening", 0)).toBe("port_not_listening");
    expect(giveUpReason("port_not_listening", 1)).toBe("port_not_listening; 1 message not delivered");
    expect(new TextEncoder().encode(cut("\u00e4".repeat(100))).length).toBeLessThanOrEqual(123);
  });
});

describe("who was let in", () => {
  const facts = {
    access: "public" as const,
    ports: {
      3000: { visibility: "private" as const, version: 4 },
      4000: { visibility: "public" as const, version: 1 },
    },
    links: { "link-1": { port: 8080, path: "/docs", wake: true } },
  };
  it.each([
    ["a key", { by: "key", keyId: "k" }, 8080, "/", true],
    ["a link", { by: "link", linkId: "link-1" }, 8080, "/docs/a", true],
    ["a link of another path", { by: "link", linkId: "link-1" }, 8080, "/docs2", false],
    ["a link that was revoked", { by: "link", linkId: "link-2" }, 8080, "/docs", false],
    ["a token", { by: "token", version: 4, endsAt: 100 }, 3000, "/", true],
    ["a token that was rotated", { by: "token", version: 3, endsAt: 100 }, 3000, "/", false],
    ["a token that is over", { by: "token", version: 4, endsAt: 50 }, 3000, "/", false],
    ["anybody", { by: "public" }, 8080, "/", true],
    ["anybody at a public port", { by: "public" }, 4000, "/", true],
    ["anybody at a private port", { by: "public" }, 3000, "/", false],
  ] as const)("with %s", (_what, pass, port, path, is) => {
    expect(isAdmitted({ pass, port, path }, facts, 60)).toBe(is);
  });
});

describe("a rule for sockets", () => {
  it("is the first that fits port and path", () => {
    const rules = SocketRules.parse([
      { path: "/ws/live", keep: false },
      { path: "/ws*", port: 3000, announce: true },
      { path: "/ws" },
    ]);
    const at = (path: string, port = 8080) => socketRuleFor(rules, { path, port });
    expect(at("/ws/live", 3000)).toBeNull();
    expect(at("/ws/a", 3000)).toMatchObject({ announce: true });
    expect(at("/ws")).toEqual({ path: "/ws" });
    expect(at("/ws/a")).toBeNull();
  });
});

describe("frames", () => {
  it("end where they end, however the bytes are cut up", () => {
    for (let seed = 1; seed <= 50; seed++) {
      const random = seeded(seed);
      const masked = random() < 0.5;
      const kinds = Array.from({ length: 20 }, () => {
        const roll = random();
        if (roll < 0.2) return frameOf(opcodes.ping, Buffer.from("stamp"), masked);
        if (roll < 0.3) return closeFrame(1001, "", masked);
        return frameOf(opcodes.text, Buffer.alloc(Math.floor(random() * (roll < 0.4 ? 60_000 : 200))), masked);
      });
      const all = Buffer.concat(kinds);
      const reader = new FrameReader();
      const ends: number[] = [];
      const stamps: string[] = [];
      let frames = 0;
      for (let at = 0; at < all.length;) {
        const chunk = all.subarray(at, at + 1 + Math.floor(random() * 400));
        const read = reader.read(chunk);
        frames += read.frames.length;
        stamps.push(
          ...read.frames.filter(({ opcode }) => opcode === opcodes.ping).map((frame) => String(frame.control)),
        );
        if (read.frameEnd !== null) ends.push(at + read.frameEnd);
        at += chunk.length;
      }
      expect([seed, frames, reader.atFrameEnd, reader.atMessageEnd]).toEqual([seed, kinds.length, true, true]);
      let sum = 0;
      const right = new Set(kinds.map((kind) => (sum += kind.length)));
      for (const end of ends) expect(right.has(end)).toBe(true);
      expect(new Set([...stamps, "stamp"])).toEqual(new Set(["stamp"]));
    }
  });

  it("of a message in parts leave it half through until the last, also with a ping in between", () => {
    const reader = new FrameReader();
    const begun = frameOf(opcodes.text, Buffer.from("a"), false);
    begun[0] = opcodes.text;
    expect(reader.read(begun)).toMatchObject({ frameEnd: 3, messageEnd: null });
    expect(reader.read(frameOf(opcodes.pong, Buffer.from("x"), false))).toMatchObject({
      frameEnd: 3,
      messageEnd: null,
    });
    expect(reader.read(frameOf(opcodes.continuation, Buffer.from("b"), false)).messageEnd).toBe(3);
  });
});
