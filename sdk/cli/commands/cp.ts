import { existsSync } from "node:fs";
import { basename, join, sep } from "node:path";
import { stat } from "node:fs/promises";
import { UsageError } from "../args.ts";
import type { CopyReport } from "../../src/index.ts";
import type { Command } from "../command.ts";
import { barOf } from "../progress-bar.ts";

export const cp: Command = {
  name: "cp",
  summary: "Copy files to or from a sandbox",
  usage: "<from> <to>",
  details:
    "One of the two is <name>:<path>, absolute or below /workspace; the other is a path here. Folders are copied with\n" +
    "their contents, each as one archive. A target that ends in / or is a folder here takes the source's own name.",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [from = "", to = ""] = args.positionals;
    const source = remotePart(from);
    const target = remotePart(to);
    if ((source === null) === (target === null)) {
      throw new UsageError(
        "one of the two must be in a sandbox, the other here",
        "Such as: rouse cp notes.md demo:/workspace/",
      );
    }
    const startedAt = Date.now();
    let shownAt = 0;
    const onProgress = ({ bytes, totalBytes }: CopyReport): void => {
      const now = Date.now();
      // More often is nothing but flicker.
      if (now - shownAt < 100) return;
      shownAt = now;
      out.progress(barOf({ done: bytes, total: totalBytes, ms: now - startedAt }));
    };
    if (target !== null) {
      const path = target.path === "" || target.path.endsWith("/") ? `${target.path}${basename(from)}` : target.path;
      const report = await (await sandbox(target.name)).files.upload(from, path, { onProgress });
      return done(`${target.name}:${path}`, report);
    }
    if (source === null || source.path === "")
      throw new UsageError(`${JSON.stringify(from)} has no path`, "Pass <name>:<path>.");
    const folder =
      to.endsWith(sep) ||
      (await stat(to).then(
        (facts) => facts.isDirectory(),
        () => false,
      ));
    const path = folder ? join(to, basename(source.path)) : to;
    return done(path, await (await sandbox(source.name)).files.download(source.path, path, { onProgress }));

    function done(where: string, report: { files: number; bytes: number; skipped: string[] }): number {
      for (const path of report.skipped) out.note(`rouse: left out ${path}, which is neither a file nor a folder`);
      out.result(`${where}: ${report.files} file${report.files === 1 ? "" : "s"}, ${report.bytes} bytes`, {
        to: where,
        ...report,
      });
      return 0;
    }
  },
};

/** `<name>:<path>`, or null for a path of this machine. */
function remotePart(text: string): { name: string; path: string } | null {
  const at = text.indexOf(":");
  if (at <= 0 || text.startsWith(".") || text.startsWith("/") || existsSync(text)) return null;
  return { name: text.slice(0, at), path: text.slice(at + 1) };
}
