import type { Credentials } from "../src/credentials.ts";

/** Where a key was found, in words. */
export const keySources: Readonly<Record<Credentials["source"], string>> = {
  option: "an option",
  environment: "ROUSE_API_KEY",
  login: "a saved login",
  local: "this machine's installation",
};
