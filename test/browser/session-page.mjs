// What a page does with a session: each step is called by the test in the page, and answers what was seen, as JSON.
import { RouseError, Rouse, Sandbox } from "rouse";

/** @param {Promise<unknown>} work */
async function refusalOf(work) {
  try {
    return { answered: await work };
  } catch (fault) {
    const { name, code, status, hint, details } = fault;
    return { typed: fault instanceof RouseError, name, code, status, hint, details };
  }
}

async function collected(events) {
  const seen = { stdout: "", stderr: "", exit: null };
  for await (const event of events) {
    if (event.type === "exit") seen.exit = event.exitCode;
    else if ("data" in event) seen[event.type] += event.data;
  }
  return seen;
}

const steps = {
  async commands(session) {
    const sandbox = Sandbox.fromSession(session);
    const { stdout, stderr, exitCode } = await sandbox.exec("cat; echo $GREETING; pwd; echo oops >&2; exit 3", {
      ...{ stdin: "typed\n", env: { GREETING: "hello" }, cwd: "/workspace" },
    });
    const list = (await sandbox.exec(["echo", "a b"])).stdout;
    const checked = await refusalOf(sandbox.exec("exit 7", { check: true }));
    return { stdout, stderr, exitCode, list, checked: [checked.name, checked.code] };
  },

  async stream(session) {
    const sandbox = Sandbox.fromSession(session);
    const at = [];
    const events = sandbox.execStream("for n in 1 2 3; do echo line $n; sleep 0.2; done; echo end >&2; exit 5");
    const seen = { stdout: "", stderr: "", exit: null };
    for await (const event of events) {
      at.push(performance.now());
      if (event.type === "exit") seen.exit = event.exitCode;
      else if ("data" in event) seen[event.type] += event.data;
    }
    // It came bit by bit, and not all of it at its end.
    return { ...seen, spread: at.at(-1) - at[0] > 300 };
  },

  async cancelled(session) {
    const sandbox = Sandbox.fromSession(session);
    const controller = new AbortController();
    const work = collected(sandbox.execStream("echo begun; sleep 60", { signal: controller.signal }));
    setTimeout(() => controller.abort(), 500);
    return (await refusalOf(work)).code;
  },

  async processes(session) {
    const sandbox = Sandbox.fromSession(session);
    const process = await sandbox.spawn("read line; echo got $line", { stdin: "pipe" });
    await process.write("input\n", { eof: true });
    const { exitCode } = await process.wait();
    const output = await collected(process.output());
    const listed = (await sandbox.processes.list()).map(({ id }) => id).includes(process.id);
    const sleeper = await sandbox.spawn(["sleep", "60"]);
    await sandbox.processes.kill(sleeper.id);
    const killed = (await sleeper.wait()).exitCode;
    return { exitCode, stdout: output.stdout, listed, killed };
  },

  async files(session, folder) {
    const { files } = Sandbox.fromSession(session);
    await files.mkdir(folder, { parents: true });
    await files.write(`${folder}/notes.txt`, "größer\n");
    await files.write(`${folder}/bytes`, new Uint8Array([0, 255, 10]), { mode: 0o600 });
    // Beyond what goes in one call: chunks, a digest, and a stream to read it.
    const large = new Uint8Array(3_000_000).map((_, at) => at % 251);
    await files.write(`${folder}/large`, large);
    let length = 0;
    let same = true;
    for await (const chunk of await files.readStream(`${folder}/large`)) {
      for (const byte of chunk) same &&= byte === large[length++];
    }
    await files.rename(`${folder}/notes.txt`, `${folder}/renamed.txt`);
    await files.chmod(`${folder}/renamed.txt`, "640");
    const seen = {
      text: await files.readText(`${folder}/renamed.txt`),
      bytes: [...(await files.read(`${folder}/bytes`))],
      large: [length, same],
      names: (await files.list(folder)).map(({ name }) => name).toSorted(),
      mode: (await files.stat(`${folder}/renamed.txt`)).mode,
      gone: await files.exists(`${folder}/notes.txt`),
      missing: await refusalOf(files.readText(`${folder}/nothing`)),
    };
    await files.remove(folder, { recursive: true });
    return { ...seen, removed: !(await files.exists(folder)) };
  },

  async watch(session, folder) {
    const { files } = Sandbox.fromSession(session);
    await files.mkdir(folder, { parents: true });
    const watch = await files.watch(folder);
    const seen = [];
    const write = files.write(`${folder}/a.txt`, "a");
    for await (const event of watch.events()) {
      seen.push(event);
      if (JSON.stringify(event).includes("a.txt")) break;
    }
    await write;
    await watch.stop();
    await files.remove(folder, { recursive: true });
    return JSON.stringify(seen);
  },

  async code(session) {
    const { interpreter } = Sandbox.fromSession(session);
    const contexts = await interpreter.contexts.list();
    const first = await refusalOf(interpreter.run("x = 20"));
    if (first.typed) return { contexts, refused: [first.name, first.code] };
    let printed = "";
    const { results } = await interpreter.run("print('computed'); x + 22", { onStdout: (text) => (printed += text) });
    const { error } = await interpreter.run("1 / 0");
    return { contexts, printed, result: results[0]?.data["text/plain"], error: error?.name };
  },

  async terminal(session) {
    const sandbox = Sandbox.fromSession(session);
    const terminal = await sandbox.terminal.open({ command: ["/bin/sh"], cols: 91, rows: 17 });
    let output = "";
    const read = (async () => {
      for await (const event of terminal.events())
        if (event.type === "output") output += new TextDecoder().decode(event.data);
    })();
    await terminal.write("stty size; echo $((6 * 7)); exit 4\r");
    const { exitCode } = await terminal.wait();
    await read;
    return { exitCode, size: output.includes("17 91"), sum: /^42\r?$/m.test(output) };
  },

  /** A page that comes back finds its terminal as it left it. */
  async attached(session) {
    const sandbox = Sandbox.fromSession(session);
    const first = await sandbox.terminal.open({ command: ["/bin/sh"] });
    await first.write("left=behind\r");
    first.detach();
    const again = await sandbox.terminal.attach(first.id, { cursor: first.cursor });
    await again.write("echo [$left]; exit\r");
    let output = "";
    for await (const event of again.events())
      if (event.type === "output") output += new TextDecoder().decode(event.data);
    return output.includes("[behind]");
  },

  async program(session, port) {
    const sandbox = Sandbox.fromSession(session);
    const answer = await sandbox.fetch("/hello?a=b", { method: "POST", body: "sent", headers: { "x-own": "1" } }, port);
    const seen = { status: answer.status, body: await answer.json(), url: sandbox.url(port) };
    return { ...seen, redirected: (await refusalOf(sandbox.fetch("/away", {}, port))).code };
  },

  async state(session) {
    const sandbox = Sandbox.fromSession(session);
    const before = await refusalOf((async () => sandbox.state)());
    await sandbox.refresh();
    return { before: before.code, id: sandbox.id, state: sandbox.state, labels: sandbox.info.labels };
  },

  async wakes(session) {
    const sandbox = Sandbox.fromSession(session);
    const { state: before } = await sandbox.refresh();
    const { stdout } = await sandbox.exec("echo awake");
    const { state: after } = await sandbox.refresh();
    return { before, stdout, after };
  },

  /** Everything that a page has no business with. */
  async beyond(session) {
    const client = new Rouse({ baseUrl: session.apiUrl, apiKey: session.token, maxRetries: 0 });
    const sandbox = await client.sandboxes.get(session.sandboxId);
    const deeds = {
      pause: () => sandbox.pause(),
      stop: () => sandbox.stop(),
      delete: () => sandbox.delete(),
      fork: () => sandbox.fork(),
      update: () => sandbox.update({ env: { A: "b" } }),
      secrets: () => sandbox.secrets.list(),
      sessions: () => sandbox.sessions.create(),
      links: () => sandbox.links.create(),
      list: () => client.sandboxes.list(),
      keys: () => client.keys.list(),
      me: () => client.me(),
    };
    const seen = {};
    for (const [name, deed] of Object.entries(deeds)) {
      const { answered, code } = await refusalOf(deed());
      seen[name] = answered === undefined ? code : "answered";
    }
    return seen;
  },

  exec: (session) =>
    refusalOf(
      Sandbox.fromSession(session)
        .exec("echo hi")
        .then(({ stdout }) => stdout),
    ),
  openTerminal: (session) =>
    refusalOf(
      Sandbox.fromSession(session)
        .terminal.open()
        .then(({ id }) => id),
    ),
  withKey: ({ apiUrl, sandboxId }, apiKey) =>
    refusalOf(new Rouse({ baseUrl: apiUrl, apiKey, maxRetries: 0 }).sandboxes.get(sandboxId).then(({ id }) => id)),

  /** Tokens that are over are followed by those that the page's server gives. */
  async renewed(session, tokens) {
    const given = [...tokens];
    const asked = [];
    const sandbox = Sandbox.fromSession({
      ...session,
      token: async () => {
        asked.push(given[0]);
        return given.shift() ?? "none";
      },
    });
    const outputs = await Promise.all([1, 2, 3].map(async (n) => (await sandbox.exec(`echo ${n}`)).stdout));
    return { outputs, asked: asked.length };
  },

  /** Without the SDK: what the browser itself lets through. */
  async plainly({ apiUrl, sandboxId }, path, init) {
    try {
      const answer = await fetch(`${apiUrl}/v1/sandboxes/${encodeURIComponent(sandboxId)}${path}`, init);
      return { status: answer.status, code: (await answer.json()).error?.code };
    } catch (fault) {
      return { refused: fault.name };
    }
  },
};

globalThis.steps = steps;
