/** Clients stay connected to a machine that sleeps, and it wakes when one of them speaks. */
import { Rouse, type Sandbox } from "rouse";
import { socketProgram } from "./socket-program.ts";
import { eventually } from "./eventually.ts";
import type { Stage } from "./tell.ts";

const SOCKETS = 200;
const IDLE_SECONDS = 10;
const PORT = 8080;
const TRIES = 480;

export interface SocketResult {
  /** Of the sandbox, while every client was connected. */
  readonly stateWhileOpen: string;
  /** Every client got its answer from the program that had been asleep, and none had to connect again. */
  readonly echoAfterSleep: boolean;
  readonly sockets: number;
  /** From the first word to its answer, with the wake, milliseconds. */
  readonly firstAnswerMs: number;
}

/** @throws Error when a client is disconnected, or gets another answer than its own */
export async function tellSocket(stage: Omit<Stage, "accelerator">, sockets = SOCKETS): Promise<SocketResult> {
  const { say } = stage;
  const rouse = new Rouse({ apiKey: stage.apiKey, baseUrl: stage.url });
  say("A machine is made, with a program that speaks WebSocket and counts in memory ...");
  const sandbox = await rouse.sandboxes.create({
    name: `connected-${process.pid}`,
    idlePauseSeconds: IDLE_SECONDS,
    sockets: [{ path: "/ws" }],
  });
  await sandbox.files.write("/workspace/sockets.py", socketProgram(PORT));
  await sandbox.spawn("python3 /workspace/sockets.py");
  await eventually(async () => (await sandbox.fetch("/")).ok, TRIES);
  const { token = "" } = await sandbox.links.create({ path: "/ws" });
  const address = `${stage.url.replace(/^http/, "ws")}/s/${sandbox.info.label}/${PORT}/ws?rouse_token=${token}`;

  say(`${sockets} clients connect, and each says a word ...`);
  const clients: Client[] = [];
  for (let n = 0; n < sockets; n++) clients.push(await Client.connect(address));
  await Promise.all(clients.map((client, n) => client.ask(`hello ${n}`)));
  say(`Nobody says a word for ${IDLE_SECONDS} s ...`);
  await eventually(async () => (await sandbox.refresh()).info.state === "paused", TRIES);
  // As long again: they stay connected, and the machine stays asleep.
  await new Promise((resolve) => setTimeout(resolve, IDLE_SECONDS * 1000));
  const stateWhileOpen = (await sandbox.refresh()).info.state;
  const open = clients.filter((client) => client.isOpen).length;
  say(`The machine is ${stateWhileOpen}, and ${open} clients are connected`);

  const began = performance.now();
  await clients[0]?.ask("anybody there?");
  const firstAnswerMs = Math.round(performance.now() - began);
  const answers = await Promise.all(clients.map((client, n) => client.ask(`still ${n}`)));
  const right = answers.filter((answer, n) => answer.endsWith(` still ${n}`)).length;
  const counted = await countOf(sandbox);
  say(
    `One speaks, and is answered after ${firstAnswerMs} ms; all ${right} others after it. The program has counted on to ${counted}`,
  );
  const stayed = clients.filter((client) => client.isOpen).length;
  for (const client of clients) client.close();
  await sandbox.delete();
  const echoAfterSleep = right === sockets && stayed === sockets && counted === 2 * sockets + 1;
  if (stateWhileOpen !== "paused" || open < sockets || !echoAfterSleep)
    throw new Error(
      `state ${stateWhileOpen}, open ${open}, answered ${right}, still open ${stayed}, counted ${counted}`,
    );
  return { stateWhileOpen, echoAfterSleep, sockets, firstAnswerMs };
}

class Client {
  readonly #socket: WebSocket;
  readonly #waiting: PromiseWithResolvers<string>[] = [];

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#waiting.shift()?.resolve(String(data)));
    socket.addEventListener("close", ({ code, reason }) => {
      for (const one of this.#waiting) one.reject(new Error(`closed: ${code} ${reason}`));
    });
  }

  static async connect(address: string): Promise<Client> {
    const socket = new WebSocket(address);
    const opened = Promise.withResolvers<void>();
    socket.addEventListener("open", () => opened.resolve());
    socket.addEventListener("error", () => opened.reject(new Error("the socket was not opened")));
    await opened.promise;
    return new Client(socket);
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  ask(text: string): Promise<string> {
    const answer = Promise.withResolvers<string>();
    this.#waiting.push(answer);
    this.#socket.send(text);
    return answer.promise;
  }

  close(): void {
    this.#socket.close();
  }
}

async function countOf(sandbox: Sandbox): Promise<number> {
  return Number(await (await sandbox.fetch("/")).text());
}
