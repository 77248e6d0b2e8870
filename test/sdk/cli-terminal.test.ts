/** `rouse terminal` at a real terminal, which another guest agent gives it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Escapes, Modes } from "../../sdk/cli/terminal-input.ts";
import { startAgent, type Agent } from "../guest/agent.ts";
import { look, type Look } from "../guest/terminals.ts";
import { CliBench } from "./cli-bench.ts";
import { GuestEdge } from "./guest-edge.ts";

let edge: GuestEdge;
let bench: CliBench;
let desk: Agent;
beforeAll(async () => {
  [edge, bench, desk] = await Promise.all([GuestEdge.start(), CliBench.start(), startAgent()]);
});
afterAll(async () => {
  await desk.stop();
  await edge[Symbol.asyncDispose]();
  await bench[Symbol.asyncDispose]();
});

const SHELL = "PS1='$ ' exec bash --norc --noprofile -i";

/** A person's shell, in which the command line is run: what it leaves set would be seen there. */
async function sit(...words: string[]): Promise<Look> {
  const env = Object.entries({ ...bench.env, ROUSE_API_URL: edge.url }).map(
    ([name, value]) => `${name}='${value ?? ""}'`,
  );
  const line = [...env, ...bench.argv(words).map((word) => `'${word.replaceAll("'", "'\\''")}'`)].join(" ");
  const { id } = await desk.spawn({
    command: `stty -a | tr ';' '\\n' | grep -o -- '-\\?\\(icanon\\|echo\\|isig\\)\\b' >before; ${line}; echo "code=$?"; stty -a | tr ';' '\\n' | grep -o -- '-\\?\\(icanon\\|echo\\|isig\\)\\b' | cmp - before && echo as-before`,
    pty: { cols: 97, rows: 29 },
  });
  return look(desk, { processId: id });
}

describe("terminal", () => {
  test("is the sandbox's terminal: size, keys, Ctrl-C, a new size, and the code of the shell", async () => {
    const person = await sit("terminal", "demo", "--env", "WORD=given", "--", SHELL);
    await person.until("$ ");
    person.type("stty size; echo $WORD\r");
    await person.until(/29 97\r\n.*given\r\n/s);
    person.type("sleep 6018.5\r");
    await expect.poll(() => edge.agent.exec("pgrep -fx 'sleep 6018[.]5' | wc -l")).toMatchObject({ stdout: "1\n" });
    person.type("\u0003");
    await expect.poll(() => edge.agent.exec("pgrep -fx 'sleep 6018[.]5' | wc -l")).toMatchObject({ stdout: "0\n" });
    person.say({ type: "resize", cols: 66, rows: 22 });
    await expect
      .poll(() => {
        person.type("stty size\r");
        return person.text;
      })
      .toContain("22 66");
    person.type("exit 42\r");
    await person.until("code=42");
    await person.until("as-before");
  }, 60_000);

  test("~. looks away, and --attach comes back to the same shell; the window is as it was", async () => {
    const person = await sit("terminal", "demo", "--", SHELL);
    await person.until("$ ");
    person.type("word=here\r");
    person.type("printf '\\033[?1049h\\033[?25l\\033[?2004h'; echo marks\r");
    await person.until("marks\r\n");
    person.type("\r~.");
    const text = await person.until("code=0");
    expect(text).toContain("\u001b[?1049l");
    expect(text).toContain("\u001b[?25h");
    await person.until("as-before");
    const id = /--attach (p-\S+?)\]/.exec(text)?.[1] ?? "";
    const again = await sit("terminal", "demo", "--attach", id);
    await again.until("marks\r\n");
    again.type("echo ~~-$word\r");
    // Not at the beginning of a line, so it is typed as it is.
    await again.until("~~-here\r\n");
    again.type("exit\r");
    await again.until("code=0");
  }, 60_000);

  test("it sleeps and wakes with a key", async () => {
    const person = await sit("terminal", "demo", "--", SHELL);
    await person.until("$ ");
    person.type("word=slept\r");
    await person.until("word=slept");
    const { wakes } = edge;
    edge.sleep();
    person.type("echo $word-well\r");
    await person.until("slept-well\r\n");
    expect(edge.wakes).toBe(wakes + 1);
    person.type("exit\r");
    await person.until("as-before");
  }, 60_000);

  test("a signal sets the window back", async () => {
    const person = await sit("terminal", "demo", "--", "echo up; exec sleep 50.25");
    await person.until("up\r\n");
    await desk.exec("pkill -TERM -f 'terminal demo -- echo up; exec sleep 50.2[5]'");
    await person.until("code=143");
    expect(await person.until("as-before")).toContain("up\r\n");
    await edge.agent.exec("pkill -fx 'sleep 50[.]25'");
  }, 60_000);

  test("lists and ends terminals", async () => {
    const { id } = await edge.agent.spawn({ command: "exec sleep 600", pty: {} });
    const at = { ROUSE_API_URL: edge.url };
    const listed = await bench.run(["terminal", "demo", "--list", "--json"], at);
    expect((JSON.parse(listed.stdout) as { data: { id: string }[] }).data.map((one) => one.id)).toContain(id);
    expect(await bench.run(["terminal", "demo", "--kill", id], at)).toMatchObject({ code: 0, stdout: `ended ${id}\n` });
    await expect.poll(() => edge.agent.process(id)).toMatchObject({ state: "killed" });
  });

  test.each([
    [["terminal", "demo"], "this is no terminal"],
    [["terminal", "demo", "--json"], "no JSON"],
    [["terminal", "demo", "--list", "--kill", "p"], "go not together"],
    [["terminal", "demo", "--attach", "p", "--", "ls"], "takes no command"],
  ])("refuses %j", async (words, why) => {
    const run = await bench.run(words, { ROUSE_API_URL: edge.url });
    expect(run.code).toBe(2);
    expect(run.stderr).toContain(why);
  });
});

describe("what is typed", () => {
  const read = (...pieces: string[]) => {
    const escapes = new Escapes();
    return pieces.map((piece) => {
      const { typed, detach } = escapes.read(Buffer.from(piece));
      return `${Buffer.from(typed).toString()}${detach ? "<detach>" : ""}`;
    });
  };

  test.each([
    [["~."], ["<detach>"]],
    [
      ["ls\r", "~", "."],
      ["ls\r", "", "<detach>"],
    ],
    [["a~."], ["a~."]],
    [["\r~~."], ["\r~."]],
    [["~/x\r"], ["~/x\r"]],
    [["x\n~.rest"], ["x\n<detach>"]],
  ])("%j", (pieces, wanted) => {
    expect(read(...pieces)).toEqual(wanted);
  });

  test("modes that were set are reset, also when their sequence came in pieces", () => {
    const modes = new Modes();
    modes.read(Buffer.from("a\u001b[?1000;1006h\u001b[?20"));
    modes.read(Buffer.from("04hb\u001b[?25l\u001b[?1049h\u001b[?1049l"));
    expect(modes.reset()).toBe("\u001b[?1000l\u001b[?1006l\u001b[?2004l\u001b[?25h\u001b[0m");
    modes.read(Buffer.from("\u001b[?25h"));
    expect(modes.reset()).not.toContain("?25");
  });
});
