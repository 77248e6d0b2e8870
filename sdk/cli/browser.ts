/** Opening a link for whoever sits at this machine. Where that does not work, the printed link is left. */
import { spawn } from "node:child_process";

export function openBrowser(url: string): void {
  const [program, ...words] = openerOf(process.platform, process.env);
  if (program === undefined) return;
  try {
    const child = spawn(program, [...words, url], { stdio: "ignore", detached: true });
    child.on("error", () => undefined);
    child.unref();
  } catch {
    // No such program, or none may be started.
  }
}

/** Program and first arguments; none where nobody would see a window. */
export function openerOf(platform: NodeJS.Platform, env: NodeJS.ProcessEnv): string[] {
  if (env["SSH_CONNECTION"] && !env["DISPLAY"] && !env["WAYLAND_DISPLAY"]) return [];
  switch (platform) {
    case "darwin":
      return ["open"];
    case "win32":
      // `start` is a word of the shell, to which a link's & means something.
      return ["rundll32", "url.dll,FileProtocolHandler"];
    default:
      return env["DISPLAY"] || env["WAYLAND_DISPLAY"] ? ["xdg-open"] : [];
  }
}
