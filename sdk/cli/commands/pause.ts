import { change } from "../change.ts";

export const pause = change("pause", "Put a sandbox to sleep with its RAM", "Pausing", (sandbox) => sandbox.pause());
