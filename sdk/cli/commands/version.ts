import { VERSION } from "../../src/index.ts";
import type { Command } from "../command.ts";

export const version: Command = {
  name: "version",
  summary: "Print the version",
  usage: "",
  words: [0, 0],
  options: {},
  run({ out }) {
    out.result(`rouse ${VERSION}`, { version: VERSION, node: process.versions.node });
    return Promise.resolve(0);
  },
};
