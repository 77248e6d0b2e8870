import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { exitCodes } from "../output.ts";

const PORTS = /^(?:(\d{1,5}):)?(\d{1,5})$/;

export const forward: Command = {
  name: "forward",
  summary: "Open ports of a sandbox on this machine",
  usage: "<name> <[local:]port...>",
  details:
    "Any TCP port, until Ctrl-C. A connection wakes the sandbox and keeps it awake while it is open; this program alone\n" +
    "does neither. A local port of 0 is a free one.",
  words: [2, 33],
  options: {
    address: { type: "string", value: "IP", help: "Address here (127.0.0.1)" },
  },
  async run({ args, out, sandbox }) {
    const [name = "", ...words] = args.positionals;
    const ports = words.map((word) => {
      const [, local, port] = PORTS.exec(word) ?? [];
      const numbers = { port: Number(port), localPort: Number(local ?? port) };
      if (port === undefined || numbers.port < 1 || numbers.port > 65_535 || numbers.localPort > 65_535)
        throw new UsageError(`${JSON.stringify(word)} is no port`, "Such as 5432, or 15432:5432.");
      return numbers;
    });
    const target = await sandbox(name);
    const address = args.text("address");
    const done = Promise.withResolvers<void>();
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => done.resolve());
    const opened = [];
    try {
      for (const { port, localPort } of ports) {
        const onError = (error: Error): void => out.note(`rouse: port ${port}: ${error.message}`);
        const one = await target.forward(port, { localPort, address, onError });
        opened.push(one);
        out.result(`${one.address}:${one.localPort} -> ${name}:${port}`, {
          address: one.address,
          localPort: one.localPort,
          port,
        });
      }
      await done.promise;
    } finally {
      await Promise.all(opened.map((one) => one.close()));
    }
    return exitCodes.ok;
  },
};
