/** A driver with one machine: its ports are those of this machine, and a test decides when it has taken up a run. */
import { ASIDE_LIMIT_MS, within } from "../../backend-pool/machine/aside.ts";
import type { Actual, Driver } from "../../backend-pool/machine/driver.ts";

export class OneMachine implements Driver {
  readonly accelerator = "fake";
  readonly acceleratorReason = "a test";
  readonly qemuVersion = null;
  readonly images = ["default"];
  readonly compatibility = "test";
  readonly agent = null;
  readonly sleepers = null;
  asleep = true;
  readonly #id: string;
  readonly #port: () => number;
  readonly #ready: () => Promise<void>;

  constructor(id: string, port: () => number, ready: () => Promise<void>) {
    this.#id = id;
    this.#port = port;
    this.#ready = ready;
  }

  async wake(): Promise<{ ready: Promise<void> }> {
    this.asleep = false;
    return { ready: this.#ready() };
  }

  async pause(_id: string, aside?: Promise<unknown>): Promise<void> {
    await within(aside, ASIDE_LIMIT_MS);
    this.asleep = true;
  }

  async inspect(): Promise<Actual> {
    const { asleep } = this;
    return {
      ...{ exists: true, running: !asleep },
      ...{ memory: asleep ? "saved" : "live", depth: asleep ? "resident" : null },
    };
  }

  thaw = () => this.inspect();
  adopt = () => this.inspect();
  list = async () => [this.#id];
  endpoint = async () => ({ host: "127.0.0.1", port: this.#port() });
  listening = async () => "reachable" as const;
  copyVolume = async () => true;
  stats = async () => ({ cpuNs: null, storedBytes: 0 });
  cpuTicks: (id: string) => Promise<number> = async () => 0;
  capture = async () => null;
  captures = async () => [];
  prepare = async () => undefined;
  create = async () => undefined;
  createFrom = async () => undefined;
  dropCapture = async () => undefined;
  boot = async () => undefined;
  settle = async () => undefined;
  stop = async () => undefined;
  destroy = async () => undefined;
  halt = async () => undefined;
  plugVolume = async () => undefined;
  mountDisk = async () => undefined;
  unplugVolume = async () => undefined;
  growVolume = async () => undefined;
  onEnded = () => undefined;
  close = async () => undefined;
}
