/** What a guest and a host of the fake host do for drills: looks are answered, kills happen. */
import { KillPart } from "../../sdk/contract/host-drill.ts";
import type { Machine } from "../../sdk/contract/host.ts";

/** What a test has a machine say of itself; the rest is as it was. */
export interface DrillOrders {
  /** Files and their content, at some time of change, Unix milliseconds. */
  readonly files?: Readonly<Record<string, readonly [text: string, changedAt: number]>>;
  readonly checkpoints?: readonly { readonly name: string; readonly version: number; readonly step: number | null }[];
  /** RAM is lost with the next look. */
  readonly losesRam?: boolean;
  /** Kills of the guest do nothing. */
  readonly immortal?: boolean;
  /** The host ends nothing but machines. */
  readonly refuses?: boolean;
  /** The host is started again after a kill of it: from then on. */
  readonly isBack?: boolean;
}

interface State {
  orders: DrillOrders;
  marked: boolean;
  looks: number;
}

export class FakeDrills {
  readonly #states = new Map<string, State>();
  /** Parts that were to be killed: `host drl-...`. */
  readonly orders: string[] = [];
  #survived: string | null = null;

  order(label: string, orders: DrillOrders): object {
    const state = this.#of(label);
    state.orders = { ...state.orders, ...orders };
    const last = this.orders.at(-1);
    if (orders.isBack && last) this.#survived = last.split(" ")[1] ?? null;
    return { looks: state.looks, orders: this.orders };
  }

  /** RAM of the machine is gone. */
  forget(label: string): void {
    this.#of(label).marked = false;
  }

  /** null: the command is not a drill's. `crash`: the machine ends. */
  run(label: string, machine: Machine, body: string): object | "crash" | null {
    const { argv } = JSON.parse(body || "{}") as { argv?: string[] };
    const state = this.#of(label);
    if (argv?.[0] === "sudo" && argv.at(-1)?.includes("sysrq")) return state.orders.immortal ? {} : "crash";
    const [, , , drill = "", process = "", paths = "[]"] = argv ?? [];
    if (!drill.startsWith("drl-")) return null;
    state.looks += 1;
    if (process === "") state.marked = true;
    if (state.orders.losesRam && process !== "") state.marked = false;
    const { files = { "/workspace/a": ["a", 1] }, checkpoints = [] } = state.orders;
    const wanted = process === "" ? Object.keys(files) : (JSON.parse(paths) as string[]);
    const said = {
      bootId: `boot-${machine.memoryRestored ? 0 : machine.generation}`,
      files: wanted.flatMap((path) => {
        const [text, changedAt] = files[path] ?? [];
        return text === undefined ? [] : [[path, text.length, changedAt, text]];
      }),
      ...{ marker: state.marked, alive: state.marked, process: "7:7", checkpoints },
    };
    const none = { stderr: "", timedOut: false, stdoutTruncated: false, stderrTruncated: false };
    return { exitCode: 0, stdout: JSON.stringify(said), ...none, durationMs: 1, processId: "1" };
  }

  /** null: refused. */
  part(method: string | undefined, body: string): object | null {
    if (method === "POST") {
      const { drill, part } = KillPart.parse(JSON.parse(body));
      if ([...this.#states.values()].some(({ orders }) => orders.refuses)) return null;
      this.orders.push(`${part} ${drill}`);
    }
    return { survived: this.#survived };
  }

  #of(label: string): State {
    const state = this.#states.get(label) ?? { orders: {}, marked: false, looks: 0 };
    this.#states.set(label, state);
    return state;
  }
}
