/** The client that commands use: key and address from the environment, or those of this machine's installation. */
import { Rouse } from "../src/index.ts";
import type { Args } from "./args.ts";
import type { Context } from "./command.ts";
import type { Output } from "./output.ts";

export function contextOf(args: Args, out: Output): Context {
  const client = new Rouse();
  return { args, out, client, sandbox: (idOrName) => client.sandboxes.get(idOrName) };
}
