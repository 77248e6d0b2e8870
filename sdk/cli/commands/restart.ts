import { change } from "../change.ts";

export const restart = change("restart", "Boot a sandbox from its disk", "Restarting", (sandbox) => sandbox.restart());
