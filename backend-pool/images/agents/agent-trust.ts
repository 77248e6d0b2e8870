/**
 * Loaded into a runtime on Node: takes up certificates that the machine came to trust after the program began. Node reads
 * them once, and an agent that begins in its image's machine, or moves, is on another host afterwards.
 */
import { readFileSync, watch } from "node:fs";
import { getCACertificates, setDefaultCACertificates } from "node:tls";

const file = process.env["NODE_EXTRA_CA_CERTS"] ?? "/etc/ssl/certs/ca-certificates.crt";
let taken = "";

function renew(): void {
  try {
    const text = readFileSync(file, "utf8");
    if (text === taken) return;
    const found = text.match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g) ?? [];
    setDefaultCACertificates([...getCACertificates("bundled"), ...found]);
    taken = text;
  } catch {
    // It is being replaced; the next change tells.
  }
}

renew();
const slash = file.lastIndexOf("/");
// Of the folder: the file is replaced, not written. Nothing ticks while nothing changes.
const watcher = watch(file.slice(0, slash) || "/", (_, name) => {
  if (name === null || name === file.slice(slash + 1)) renew();
});
watcher.unref();
watcher.on("error", () => undefined);
