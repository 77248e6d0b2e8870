/** What an image is made of. Pure: a recipe and its content key. */
import { createHash } from "node:crypto";

/** A base system, its packages and what is done to it; the same recipe always has the same key. */
export interface Recipe {
  readonly name: string;
  /** Debian suite. */
  readonly suite: string;
  readonly apt: readonly string[];
  /** Shell commands run as root inside the new system, in order. */
  readonly commands: readonly string[];
  /** MiB of the image's own file system; a shape's disk is at least that large and grows at its first boot. */
  readonly sizeMiB: number;
}

/** The image of sandboxes that name none. */
export const defaultRecipe: Recipe = {
  name: "default",
  suite: "trixie",
  apt: [
    // What boots and carries the guest.
    "linux-image-cloud-amd64",
    "busybox-static",
    "kmod",
    "iproute2",
    "nftables",
    "procps",
    "e2fsprogs",
    "sudo",
    "ca-certificates",
    "xz-utils",
    // What agents use.
    "python3",
    "python3-pip",
    "python3-venv",
    "python3-ipykernel",
    "python3-jupyter-client",
    "python3-numpy",
    "python3-pandas",
    "python3-matplotlib",
    "git",
    "curl",
    "ripgrep",
    "jq",
    "sqlite3",
    "less",
    "unzip",
    // For packages that compile, and for PID 1 itself.
    "gcc",
    "libc6-dev",
    "make",
  ],
  commands: [
    "useradd --uid 1000 --user-group --home-dir /workspace --create-home --shell /bin/bash runtime",
    "echo 'runtime ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/runtime && chmod 440 /etc/sudoers.d/runtime",
    "printf '[global]\\nbreak-system-packages = true\\n' > /etc/pip.conf",
    // Everything that would be the same in every machine made from the image.
    "rm -f /etc/machine-id /var/lib/dbus/machine-id /etc/ssh/ssh_host_*; touch /etc/machine-id",
    "echo rouse > /etc/hostname",
    "printf 'nameserver 127.0.0.1\\n' > /etc/resolv.conf",
    "rm -rf /var/cache/apt/* /var/lib/apt/lists/* /var/log/*.log /tmp/*",
  ],
  sizeMiB: 3072,
};

/** Twenty hex digits that change with anything the image is made from. */
export function contentKey(...parts: readonly (string | Buffer | object)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) {
    hash.update(typeof part === "string" || Buffer.isBuffer(part) ? part : JSON.stringify(part));
    hash.update("\0");
  }
  return hash.digest("hex").slice(0, 20);
}
