/** `--service NAME[:PORT]=COMMAND`. */
import { Service } from "../contract/boot.ts";
import { UsageError } from "./args.ts";

const SEE = "Such as: --service 'web:8080=node server.js'; rouse services set takes all that a service can have.";

/** @throws UsageError */
export function serviceOf(text: string): Service {
  const match = /^([^:=]+)(?::(\d{1,5}))?=(.*)$/s.exec(text);
  if (!match) throw new UsageError("--service is NAME[:PORT]=COMMAND", SEE);
  const [, name, port, command] = match;
  const parsed = Service.safeParse({ name, command, ...(port === undefined ? {} : { port: Number(port) }) });
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  throw new UsageError(`--service ${faults.join("; ")}`, SEE);
}
