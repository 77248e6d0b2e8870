/** After every kill point the same checks, on each sandbox that it played on, and then on what is left of them. */
import { existsSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { RouseError, type SandboxInfo } from "rouse";
import { Sandbox as SandboxSchema } from "../../sdk/contract/sandbox.ts";
import { excess } from "./books.ts";
import type { Stage } from "./point.ts";
import type { Witness } from "./witness.ts";
import { listeningPorts } from "./world.ts";
import { leftovers } from "../support/process-tree.ts";

/** Within this a fault is over: parts have found each other, states are told. Milliseconds. */
const RECOVERY_MS = 40_000;
const CALL_MS = 20_000;
const CLOCK_MS = 1000;
const MIB = 1_048_576;

/** Standing sandboxes that are kept for points to come. */
const STANDING_MAX = 2;

/** Judge all sandboxes of a point. What is wrong goes to the stage. The books are still to be settled. */
export async function judge(stage: Stage): Promise<void> {
  for (const witness of stage.witnesses) {
    const complain = (text: string) => stage.complain(`${witness.label}: ${text}`);
    if (!witness.gone) {
      await judgeLife(witness, complain);
      await judgeProcesses(stage, witness, complain);
      if (mayStand(stage, witness)) {
        stage.world.standing.push(witness);
        continue;
      }
      await remove(witness, complain);
    }
    await judgeRemains(witness, complain);
  }
  await judgeFolders(stage);
}

/** Judge what was booked of a point's sandboxes. It takes heartbeats, and may be done beside points to come. */
export async function judgeBooks(stage: Stage): Promise<void> {
  const { books } = stage.world;
  for (const witness of stage.witnesses) {
    for (const fault of await books.settle(witness.id, witness.gone)) stage.complain(`${witness.label}: ${fault}`);
    for (const fault of await excessOf(witness)) stage.complain(`${witness.label}: ${fault}`);
  }
  for (const fault of books.faults.splice(0)) stage.complain(fault);
}

/** Delete the sandboxes that were kept, and judge what is left of them. */
export async function dismiss(stage: Stage): Promise<void> {
  const { standing } = stage.world;
  stage.witnesses.push(...standing.splice(0));
  for (const witness of stage.witnesses) {
    const complain = (text: string) => stage.complain(`${witness.label}: ${text}`);
    await remove(witness, complain);
    await judgeRemains(witness, complain);
  }
  await judgeFolders(stage);
}

/** Only one of a shared system, with nothing in it that another point would stumble over. */
function mayStand(stage: Stage, witness: Witness): boolean {
  const { world } = stage;
  return (
    world.driver === "qemu" &&
    world.disk === null &&
    stage.faults.length === 0 &&
    world.standing.length < STANDING_MAX &&
    !witness.stopped &&
    witness.crash === "no" &&
    witness.hasNumbers &&
    witness.patient.info.timeoutSeconds === 0
  );
}

async function judgeLife(witness: Witness, complain: (text: string) => void): Promise<void> {
  const info = await atRest(witness);
  if (!info) return complain(`did not come to rest within ${RECOVERY_MS / 1000} s`);
  let booted = false;
  if (info.state === "stopped") {
    booted = true;
    if (witness.crash === "no" && !witness.stopped)
      complain(`is stopped (${info.stopReason}: ${info.lastError}), and its machine was not killed`);
    witness.waking();
    const back = await witness.world.patient.sandboxes.getOrCreate(witness.label);
    const { id, state, memoryRestored } = back.info;
    if (id !== witness.id) complain(`getOrCreate answered ${id}`);
    // A sandbox whose first start failed has nothing that could be lost.
    if (state !== "running" || (info.diskKept && memoryRestored !== false))
      complain(`after getOrCreate it is ${state}, memoryRestored ${memoryRestored}`);
  }
  witness.waking();
  const life = await witness.lifeNow();
  await witness.patient.refresh();
  if (witness.life !== null && life !== witness.life) {
    if (witness.crash === "no" && !witness.stopped) complain("RAM is lost, and its machine was not killed");
    if (witness.patient.info.memoryRestored !== false)
      complain(`RAM is lost, and memoryRestored is ${witness.patient.info.memoryRestored}`);
    booted = true;
  } else {
    if (booted && witness.life !== null) complain("it was booted anew, and its RAM is of before");
    if (witness.crash === "yes") complain("its machine was killed, and its RAM is of before");
    await judgeRam(witness, complain);
  }
  const file = await witness.patient.exec("cat lines.txt", { timeoutMs: CALL_MS });
  const lost = booted && !witness.stopped;
  // ext4 may show zeroes where unsynced bytes of a block that was there already were on their way: nobody was promised those.
  const text = lost ? file.stdout.replaceAll("\0", "") : file.stdout;
  for (const fault of witness.lines.judge(numbers(text), lost)) complain(`file: ${fault} in ${JSON.stringify(text)}`);
  await judgeClock(witness, complain);
}

/** Read until it rests: a machine that was killed may look as if it ran until the news is told. */
async function atRest(witness: Witness): Promise<SandboxInfo | null> {
  const endsAt = performance.now() + RECOVERY_MS;
  for (; performance.now() < endsAt; await delay(100)) {
    const { info } = await witness.patient.refresh();
    SandboxSchema.parse(info);
    if (info.generation < witness.generation) throw new Error(`generation ${info.generation} came after a larger one`);
    witness.generation = info.generation;
    if (info.state !== "running" && info.state !== "paused" && info.state !== "stopped") continue;
    const host = await witness.world.hostView(witness.id);
    // Edge and host have to agree in the end, about the state and about the run that it belongs to.
    const agrees = host ? host.state === info.state : info.state === "stopped" && !info.diskKept;
    if (agrees && (info.state !== "running" || host?.generation === info.generation)) return info;
  }
  return null;
}

async function judgeRam(witness: Witness, complain: (text: string) => void): Promise<void> {
  if (!witness.hasNumbers) return;
  const read = await witness.patient.interpreter.run("print(*numbers)", { timeoutMs: CALL_MS });
  if (read.status !== "ok") return complain(`the interpreter answered ${read.status} ${read.error?.value ?? ""}`);
  for (const fault of witness.ram.judge(numbers(read.stdout), false)) complain(`RAM: ${fault}`);
}

async function judgeClock(witness: Witness, complain: (text: string) => void): Promise<void> {
  const before = Date.now();
  const clock = Number((await witness.patient.exec("date +%s%3N", { timeoutMs: CALL_MS })).stdout);
  const off = clock < before ? before - clock : Math.max(0, clock - Date.now());
  if (!(off < CLOCK_MS)) complain(`its clock is off by ${off} ms`);
}

/** One machine at most for a sandbox, and just one for what runs. A moment is granted to what is on its way out. */
async function judgeProcesses(stage: Stage, witness: Witness, complain: (text: string) => void): Promise<void> {
  const { world } = stage;
  const count = async () => (await world.machinesOf(witness.id)).length;
  const endsAt = performance.now() + 10_000;
  let found = await count();
  while (found !== 1 && performance.now() < endsAt) {
    await delay(200);
    found = await count();
  }
  if (found !== 1) complain(`it runs, and has ${found} machines`);
  for (const { pid, id, known } of await world.machines())
    if (id === witness.id && !known) complain(`process ${pid} of its machine is in no pid file`);
}

async function remove(witness: Witness, complain: (text: string) => void): Promise<void> {
  for (const pid of await witness.world.machinesOf(witness.id))
    for (const port of listeningPorts(pid)) witness.ports.add(port);
  const deleted = await witness.patient.delete();
  witness.gone = true;
  if (deleted.state !== "deleted") complain(`after delete it is ${deleted.state}`);
}

/** Of a deleted sandbox nothing is left: no answer, no process, no folder, no port, nothing on the host. */
async function judgeRemains(witness: Witness, complain: (text: string) => void): Promise<void> {
  const { world } = witness;
  const faults = async (): Promise<string[]> => {
    const left: string[] = [];
    const said = await world.direct.sandboxes.get(witness.id).then(
      (found) => found.state as string,
      (fault: unknown) => (fault instanceof RouseError ? fault.code : String(fault)),
    );
    if (said !== "sandbox_gone" && said !== "not_found") left.push(`of a deleted sandbox the edge says ${said}`);
    const host = await world.hostView(witness.id);
    if (host) left.push(`the host still has the deleted sandbox, ${host.state}`);
    const machines = await world.machinesOf(witness.id);
    if (machines.length > 0) left.push(`${machines.length} machines of the deleted sandbox are left`);
    for (const folder of [witness.id, `${witness.id}.part`])
      if (existsSync(join(world.stateDir, "machines", folder))) left.push(`folder ${folder} is left`);
    const others = new Set((await world.machines()).filter(({ id }) => id !== witness.id).map(({ pid }) => pid));
    const orphans = leftovers("ROUSE_STATE", world.stateDir, world.stateDir).filter(({ pid }) => !others.has(pid));
    for (const { pid, command } of orphans)
      for (const port of listeningPorts(pid))
        if (witness.ports.has(port)) left.push(`port ${port} of the deleted sandbox is still open: ${command}`);
    return left;
  };
  const endsAt = performance.now() + RECOVERY_MS;
  let left = await faults();
  while (left.length > 0 && performance.now() < endsAt) {
    await delay(250);
    left = await faults();
  }
  for (const fault of left) complain(fault);
  // So that the points to come are judged by what they do themselves.
  if (left.length > 0) await world.purge(witness.id);
}

/** Every machine and every folder belongs to a sandbox of the account. */
async function judgeFolders(stage: Stage): Promise<void> {
  const { world } = stage;
  const strays = async (): Promise<{ id: string; text: string }[]> => {
    const listed = new Set((await (await world.patient.sandboxes.list()).toArray()).map(({ id }) => id));
    const folders = (await world.folders()).filter((name) => !listed.has(name));
    const machines = (await world.machines()).filter(({ id }) => id === null || !listed.has(id));
    return [
      ...folders.map((name) => ({ id: name, text: `folder machines/${name} belongs to no sandbox` })),
      ...machines.map(({ pid, id }) => ({ id: id ?? "", text: `process ${pid} (${id}) belongs to no sandbox` })),
    ];
  };
  const endsAt = performance.now() + 10_000;
  let found = await strays();
  while (found.length > 0 && performance.now() < endsAt) {
    await delay(250);
    found = await strays();
  }
  for (const { text } of found) stage.complain(text);
  for (const id of new Set(found.map((one) => one.id))) await world.purge(id);
}

async function excessOf(witness: Witness): Promise<string[]> {
  const { memoryMiB, diskMiB } = witness.patient.info;
  const storedBytes = (memoryMiB + diskMiB) * MIB;
  const shown = await witness.world.books.shown(witness.id);
  const { wallMs, awakeMs } = witness;
  return excess(shown, { wallMs, awakeMs, memoryMiB, cpus: cpus().length, storedBytes });
}

function numbers(text: string): number[] {
  return text.split(/\s+/).filter(Boolean).map(Number);
}
