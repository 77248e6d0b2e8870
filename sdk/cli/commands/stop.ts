import { change } from "../change.ts";

export const stop = change("stop", "End a sandbox's machine; its disk is kept, its RAM is not", "Stopping", (sandbox) =>
  sandbox.stop(),
);
