/** Programs of the Python SDK at a sandbox that they themselves have sleep, cut and refuse, by `edge("word")`. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { GuestEdge } from "./guest-edge.ts";
import { python, type Half } from "./python-run.ts";

/** For the body of a program: what goes on next to it, and the edge. */
const READING: Record<Half, string> = {
  async: `
class Reader:
    def __init__(self, terminal):
        self.events, self.data = [], bytearray()
        self.task = asyncio.ensure_future(self.read(terminal))
    async def read(self, terminal):
        async for event in terminal.events():
            self.events.append({**event, "data": len(event["data"])} if event["type"] == "output" else event)
            self.data += event["data"] if event["type"] == "output" else b""
    async def done(self):
        await asyncio.wait_for(self.task, 60)
def beside(work):
    return asyncio.ensure_future(work())
async def result_of(task):
    return await task
async def pause(seconds):
    await asyncio.sleep(seconds)
`,
  sync: `
import threading, time
from concurrent.futures import ThreadPoolExecutor
class Reader:
    def __init__(self, terminal):
        self.events, self.data, self.error = [], bytearray(), None
        self.thread = threading.Thread(target=self.read, args=(terminal,), daemon=True)
        self.thread.start()
    def read(self, terminal):
        try:
            for event in terminal.events():
                self.events.append({**event, "data": len(event["data"])} if event["type"] == "output" else event)
                self.data += event["data"] if event["type"] == "output" else b""
        except Exception as error:
            self.error = error
    def done(self):
        self.thread.join(60)
        if self.error is not None:
            raise self.error
def beside(work):
    return ThreadPoolExecutor(1).submit(work)
def result_of(future):
    return future.result(60)
def pause(seconds):
    time.sleep(seconds)
`,
};

const COMMON = `
import urllib.request
async def until(condition, seconds=30):
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await pause(0.02)
    raise AssertionError("it did not come about")
def edge(word):
    return json.loads(urllib.request.urlopen(f"{EDGE}/{word}").read())
sandbox = await rouse.sandboxes.get("demo")
`;

export class PythonEdge {
  readonly edge: GuestEdge;
  readonly #control: Server;
  /** What programs may ask for beside. */
  readonly words = new Map<string, () => unknown>();
  /** Told of each word. */
  onWord: (word: string) => void = () => undefined;

  private constructor(edge: GuestEdge, control: Server) {
    this.edge = edge;
    this.#control = control;
  }

  static async start(): Promise<PythonEdge> {
    const control = createServer((req, res) => {
      const word = (req.url ?? "").slice(1);
      whole.onWord(word);
      const known: Record<string, () => unknown> = {
        cut: () => edge.cut(),
        sleep: () => edge.sleep(),
        wake: () => (edge.state = "running"),
        stop: () => (edge.state = "stopped"),
        refuse: () => (edge.refusals = 3),
        down: () => (edge.isDown = true),
        up: () => (edge.isDown = false),
        facts: () => ({
          state: edge.state,
          wakes: edge.wakes,
          refusals: edge.refusals,
          upgrades: edge.upgrades.length,
        }),
      };
      const answer = (known[word] ?? whole.words.get(word))?.();
      res.end(JSON.stringify(answer ?? null));
    });
    const edge = await GuestEdge.start();
    const whole = new PythonEdge(edge, control);
    await new Promise<void>((resolve) => control.listen(0, "127.0.0.1", resolve));
    return whole;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#control.closeAllConnections();
    this.#control.close();
    await this.edge[Symbol.asyncDispose]();
  }

  /** Run a body that has `sandbox`, `Reader`, `until`, `beside` and `edge`. */
  run(half: Half, body: string): Promise<unknown> {
    const control = `EDGE = "http://127.0.0.1:${(this.#control.address() as AddressInfo).port}"\n`;
    return python(half, this.edge.url, `${control}${READING[half]}${COMMON}${body}`);
  }
}
