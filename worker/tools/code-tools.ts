/** The tool that runs code in an interpreter whose variables stay. */
import { z } from "zod";
import { Execution, guestLimits, RunCode } from "../../sdk/contract/guest.ts";
import { WhichSandbox } from "./fields.ts";
import { at, tool, type Picture, type Tool } from "./tool.ts";

const TIMEOUT_SECONDS = 60;
/** Longest text of one stream or result in an answer, characters. */
const TEXT_MAX = 65_536;
/** Base64 of one picture, characters. */
const PICTURE_MAX = 1_048_576;

function cut(text: string): string {
  return text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX)}\n[${text.length - TEXT_MAX} more characters]`;
}

/** Pictures apart from what is text. */
function split(data: Readonly<Record<string, unknown>>): { texts: Record<string, string>; pictures: Picture[] } {
  const texts: Record<string, string> = {};
  const pictures: Picture[] = [];
  for (const [mimeType, value] of Object.entries(data)) {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    if (!/^image\/(?:png|jpeg|gif|webp)$/.test(mimeType)) texts[mimeType] = cut(text);
    else if (text.length <= PICTURE_MAX) pictures.push({ mimeType, data: text.replaceAll("\n", "") });
  }
  return { texts, pictures };
}

export const codeTools: readonly Tool[] = [
  tool({
    name: "run_code",
    title: "Run Python",
    description:
      "Run Python in a Jupyter kernel of the sandbox (numpy, pandas, matplotlib). Variables stay for the next call, also over sleeps. " +
      "An exception is an answer, in `error`; plots come as pictures.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      code: RunCode.shape.code.describe("The value of the last expression is a result"),
      context: RunCode.shape.context.describe("Interpreter of its own variables; the default one unless given"),
      timeoutSeconds: z
        .number()
        .min(1)
        .max(guestLimits.execTimeoutMsMax / 1000)
        .optional()
        .describe(`It is interrupted after so long; ${TIMEOUT_SECONDS} unless given`),
    }),
    output: Execution.pick({ status: true, stdout: true, stderr: true, error: true, durationMs: true, contextId: true })
      .extend({ results: z.array(z.record(z.string(), z.string())).describe("Mime type to text of each result") })
      .strip(),
    readOnly: false,
    destructive: true,
    open: true,
    async act(api, { sandbox, code, context, timeoutSeconds = TIMEOUT_SECONDS }) {
      const body = { code, timeoutMs: Math.ceil(timeoutSeconds * 1000), ...(context === undefined ? {} : { context }) };
      const run = await api.json(Execution, "POST", at(sandbox, "/interpreter:run"), body);
      const results = run.results.map(({ data }) => split(data));
      return {
        ...run,
        ...{ stdout: cut(run.stdout), stderr: cut(run.stderr), results: results.map(({ texts }) => texts) },
        pictures: results.flatMap(({ pictures }) => pictures),
      };
    },
  }),
];
