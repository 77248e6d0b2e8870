/** Names that the operator of a host leads somewhere himself, such as to a service of its private network. Pure. */
import { z } from "zod";
import { formatAddress, parseAddress, type Address } from "./addresses.ts";
import { hostOf } from "./rules.ts";

export interface Place {
  readonly address: string;
  readonly port: number;
}

/** `192.168.1.10:11434`, `[fd00::1]:443`. */
const PLACE = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/;
const NAME = /^([^:]+?)(?::(\d{1,5}))?$/;

const Setting = z.record(z.string(), z.string());

export class OperatorHosts {
  readonly #places: ReadonlyMap<string, Place>;
  readonly #names: ReadonlySet<string>;

  private constructor(places: ReadonlyMap<string, Place>) {
    this.#places = places;
    this.#names = new Set([...places.keys()].map((key) => key.replace(/:\d+$/, "")));
  }

  /**
   * @param setting `ROUSE_EGRESS_HOSTS`, JSON: `{"models.lan":"192.168.1.10:11434","registry.lan:443":"127.0.0.1:4873"}`
   * @throws Error naming every entry that is wrong
   */
  static parse(setting: string | undefined): OperatorHosts {
    const faults: string[] = [];
    const places = new Map<string, Place>();
    for (const [key, value] of Object.entries(entriesOf(setting))) {
      const name = NAME.exec(key);
      const host = hostOf(name?.[1] ?? "");
      const place = PLACE.exec(value);
      const address = parseAddress(place?.[1] ?? place?.[2] ?? "");
      if (host?.kind !== "name" || (name?.[2] !== undefined && !isPort(name[2])))
        faults.push(`"${key}" is no host name, or name:port`);
      else if (!address || !isPort(place?.[3] ?? "")) faults.push(`"${value}" (of "${key}") is no address:port`);
      else
        places.set(name?.[2] === undefined ? host.name : `${host.name}:${Number(name[2])}`, {
          address: formatAddress(address),
          port: Number(place?.[3]),
        });
    }
    if (faults.length > 0) throw new Error(`ROUSE_EGRESS_HOSTS is not valid: ${faults.join("; ")}`);
    return new OperatorHosts(places);
  }

  /** Where connections to that name and port go; null: where its name says. */
  place(name: string, port: number): Place | null {
    return this.#places.get(`${name}:${port}`) ?? this.#places.get(name) ?? null;
  }

  /** Whether any port of it is led somewhere. */
  has(name: string): boolean {
    return this.#names.has(name);
  }

  get names(): Iterable<string> {
    return this.#names;
  }
}

/**
 * Addresses that stand for names which have none that a machine could use: `198.19.128.1` and on, a range that is
 * nobody's. Whoever looks such a name up and connects to the address reaches the name.
 */
export class StandIns {
  readonly #names = new Map<string, Address>();
  readonly #addresses = new Map<bigint, string>();

  /** The same names in any order get the same addresses, so that a machine that moves finds them again. */
  constructor(names: Iterable<string>) {
    let bits = (198n << 24n) | (19n << 16n) | (128n << 8n);
    for (const name of [...new Set(names)].toSorted()) {
      bits += 1n;
      this.#names.set(name, { family: 4, bits });
      this.#addresses.set(bits, name);
    }
  }

  of(name: string): Address | null {
    return this.#names.get(name) ?? null;
  }

  nameOf({ family, bits }: Address): string | null {
    return family === 4 ? (this.#addresses.get(bits) ?? null) : null;
  }
}

function entriesOf(setting: string | undefined): Record<string, string> {
  if (setting === undefined || setting.trim() === "") return {};
  let value: unknown;
  try {
    value = JSON.parse(setting);
  } catch {
    throw new Error("ROUSE_EGRESS_HOSTS is not valid: it is no JSON");
  }
  const parsed = Setting.safeParse(value);
  if (!parsed.success) throw new Error("ROUSE_EGRESS_HOSTS is not valid: it is no object of texts");
  return parsed.data;
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535;
}
