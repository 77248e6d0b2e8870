/** The authority of a host: signs for the names whose requests get secrets, and its machines trust it. */
import { createPrivateKey, generateKeyPairSync, randomBytes, X509Certificate, type KeyObject } from "node:crypto";
import { link, mkdir, open, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { createSecureContext, type SecureContext } from "node:tls";
import { issueAuthority, issueLeaf, LEAF_MS } from "./certificate.ts";

const LEAVES_MAX = 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/;
const KEY = /-----BEGIN (?:EC )?PRIVATE KEY-----[^-]+-----END (?:EC )?PRIVATE KEY-----/;

interface Leaf {
  readonly context: SecureContext;
  /** Unix milliseconds. */
  readonly until: number;
}

export class Authority {
  /** Certificate alone, PEM. */
  readonly pem: string;
  readonly #key: KeyObject;
  readonly #name: string;
  readonly #now: () => number;
  /** One key for all names: it lives as long as this process. */
  readonly #leafKey = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  readonly #leaves = new Map<string, Leaf>();

  private constructor(pem: string, key: KeyObject, name: string, now: () => number) {
    this.pem = pem;
    this.#key = key;
    this.#name = name;
    this.#now = now;
  }

  /**
   * @param file certificate and key (PEM), mode 0600; made when it is not there
   * @throws Error when the file holds something else
   */
  static async open(file: string, now: () => number = Date.now): Promise<Authority> {
    const known = await read(file);
    if (known === null) await create(file, now());
    const pem = known ?? (await read(file)) ?? "";
    const certificate = CERTIFICATE.exec(pem)?.[0];
    const key = KEY.exec(pem)?.[0];
    if (!certificate || !key) throw new Error(`${file} does not hold a certificate and its key`);
    const privateKey = createPrivateKey(key);
    const parsed = new X509Certificate(certificate);
    const name = /^CN=(.+)$/m.exec(parsed.subject)?.[1];
    const isOurs = parsed.ca && parsed.checkPrivateKey(privateKey) && /^O=Rouse$/m.test(parsed.subject);
    if (!name || !isOurs) throw new Error(`${file} does not hold an authority of Rouse: remove it, or name another`);
    if (parsed.validToDate.getTime() < now()) throw new Error(`The certificate in ${file} has run out: remove it`);
    return new Authority(`${certificate}\n`, privateKey, name, now);
  }

  /** For a server that answers as that name. */
  context(name: string): SecureContext {
    const now = this.#now();
    const known = this.#leaves.get(name);
    this.#leaves.delete(name);
    const leaf = known && known.until > now ? known : this.#issue(name, now);
    // The one used last comes last.
    this.#leaves.set(name, leaf);
    const oldest = this.#leaves.keys().next().value;
    if (this.#leaves.size > LEAVES_MAX && oldest !== undefined) this.#leaves.delete(oldest);
    return leaf.context;
  }

  #issue(name: string, now: number): Leaf {
    const { publicKey, privateKey } = this.#leafKey;
    const pem = issueLeaf(name, publicKey, { name: this.#name, key: this.#key }, now);
    const key = privateKey.export({ type: "pkcs8", format: "pem" });
    return {
      context: createSecureContext({ cert: pem + this.pem, key, minVersion: "TLSv1.2" }),
      until: now + LEAF_MS / 2,
    };
  }
}

async function read(file: string): Promise<string | null> {
  try {
    return await readFile(file, "utf8");
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw fault;
  }
}

/** Whole or not at all; of two that make it at once, one. */
async function create(file: string, now: number): Promise<void> {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  // Machines may trust several: names tell them apart.
  const name = `Rouse egress ${randomBytes(4).toString("hex")}`;
  const pem = issueAuthority(name, privateKey, now) + String(privateKey.export({ type: "pkcs8", format: "pem" }));
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    const handle = await open(draft, "wx", 0o600);
    try {
      await handle.writeFile(pem);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await link(draft, file).catch((fault: NodeJS.ErrnoException) => {
      if (fault.code !== "EEXIST") throw fault;
    });
  } finally {
    await rm(draft, { force: true });
  }
}
