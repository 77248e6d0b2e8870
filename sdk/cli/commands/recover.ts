import { change } from "../change.ts";

export const recover = change("recover", "Run a sandbox again, from RAM or else from disk", "Recovering", (sandbox) =>
  sandbox.recover(),
);
