import { change } from "../change.ts";

export const wake = change("wake", "Wake a sandbox", "Waking", (sandbox) => sandbox.wake());
