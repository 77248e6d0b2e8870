/** After a fault: is every promise kept? */
import { setTimeout as delay } from "node:timers/promises";
import type { Sandbox as Info } from "../../sdk/contract/sandbox.ts";
import { machineProcesses, processFaults } from "./machine-processes.ts";
import type { Record } from "./record.ts";
import type { Subject } from "./subject.ts";

/** Within this a fault is over: parts have found each other, states are told. Milliseconds. */
const RECOVERY_MS = 30_000;
const READ_MS = 20_000;
/** A machine that was booted starts its interpreter first, milliseconds. */
const FIRST_RUN_MS = 240_000;
/** What a guest's clock may be off, milliseconds; a clock that was not set after a wake is off by the sleep. */
const CLOCK_MS = 1000;

/** Check one sandbox; false when it is left in a state in which nothing more can be asked of it. */
export async function checkSubject(subject: Subject, record: Record): Promise<boolean> {
  const complain = (text: string) => record.violation(`${subject.name}: ${text}`);
  const info = await recovered(subject);
  if (info === null) {
    complain(`did not come to rest within ${RECOVERY_MS / 1000} s`);
    return false;
  }
  const killed = subject.killedAt !== null;
  let crashed = false;
  if (info.state === "stopped") {
    crashed = true;
    if (!killed) complain(`is stopped (${info.stopReason}: ${info.lastError}), and its machine was not killed`);
    else if (info.stopReason !== "vm_crashed") complain(`is stopped with ${info.stopReason}, not vm_crashed`);
    const refused = await subject.attempt("exec", () => subject.direct.exec("true", { timeoutMs: READ_MS }));
    if (refused.ok || refused.code !== "sandbox_stopped")
      complain(`exec in a stopped sandbox: ${refused.ok ? "ran" : refused.code}`);
    const back = await subject.getOrCreate();
    if (!back.ok) {
      complain(`getOrCreate did not bring it back: ${back.code}`);
      return false;
    }
    const { state, memoryRestored } = back.value.info;
    if (state !== "running" || memoryRestored !== false)
      complain(`after getOrCreate it is ${state}, memoryRestored ${memoryRestored}`);
  }
  crashed = (await checkRam(subject, crashed, complain)) || crashed;
  await checkLines(subject, crashed, complain);
  await checkClock(subject, complain);
  if (crashed) {
    subject.killedAt ??= Date.now();
    await subject.prepare();
  }
  const counted = await subject.visit();
  if (!counted.ok) complain(`its program does not answer: ${counted.code}`);
  return true;
}

/** Exactly one process for what runs. A moment is granted: a sleeper's process may be on its way out. */
export async function checkProcesses(stateDir: string, subjects: readonly Subject[], record: Record): Promise<void> {
  const endsAt = Date.now() + RECOVERY_MS;
  for (;;) {
    const states = new Map<string, string>();
    for (const subject of subjects) {
      const read = await subject.refresh();
      if (read.ok) states.set(subject.id, read.value.state);
    }
    const faults = processFaults(await machineProcesses(stateDir), states);
    if (faults.length === 0) return;
    if (Date.now() > endsAt) return faults.forEach((fault) => record.violation(fault));
    await delay(500);
  }
}

/** The sandbox at rest; null when it does not get there. A killed one may look as if it ran until the news is told. */
async function recovered(subject: Subject): Promise<Info | null> {
  const endsAt = Date.now() + RECOVERY_MS;
  while (Date.now() < endsAt) {
    const read = await subject.refresh();
    if (!read.ok && (read.code === "not_found" || read.code === "sandbox_gone")) return null;
    if (read.ok && read.value.state === "stopped") return read.value;
    if (read.ok && (read.value.state === "running" || read.value.state === "paused")) {
      const probe = await subject.attempt("exec", () => subject.direct.exec("true", { timeoutMs: READ_MS }));
      const again = probe.ok ? await subject.refresh() : null;
      if (again?.ok && again.value.state === "running") return again.value;
    }
    await delay(200);
  }
  return null;
}

/** Whether RAM was lost, and whether that is admitted. */
async function checkRam(subject: Subject, crashed: boolean, complain: (text: string) => void): Promise<boolean> {
  const read = await subject.attempt("interpreter", () =>
    subject.patient.interpreter.run("print(*numbers)", {
      timeoutMs: subject.killedAt === null ? READ_MS : FIRST_RUN_MS,
    }),
  );
  if (!read.ok) {
    complain(`the interpreter does not answer: ${read.code}`);
    return crashed;
  }
  const { status, stdout, error } = read.value;
  const { info } = subject.patient;
  if (status === "ok") {
    if (crashed) complain("it was booted anew, and its RAM is of before");
    for (const fault of subject.ram.judge(numbers(stdout), false)) complain(`RAM: ${fault}`);
    return false;
  }
  if (error?.name !== "NameError") complain(`the interpreter answered ${status} ${error?.value ?? ""}`);
  if (subject.killedAt === null) complain("RAM is lost, and its machine was not killed");
  if (!crashed) {
    // It was booted by whoever asked for it in the middle of a pause or wake.
    const reasons = subject.pausedThisRound ? ["vm_crashed", "wake_failed"] : ["vm_crashed"];
    if (info.memoryRestored !== false) complain(`RAM is lost, and memoryRestored is ${info.memoryRestored}`);
    if (!reasons.includes(info.stopReason ?? "")) complain(`RAM is lost, and stopReason is ${info.stopReason}`);
  }
  return true;
}

async function checkLines(subject: Subject, crashed: boolean, complain: (text: string) => void): Promise<void> {
  const read = await subject.attempt("exec", () =>
    subject.patient.exec("cat /workspace/lines.txt", { timeoutMs: READ_MS }),
  );
  if (!read.ok) return complain(`its file can't be read: ${read.code}`);
  // ext4 may show zeroes where unsynced bytes of a block that was there already were on their way: nobody was promised those.
  const found = numbers(crashed ? read.value.stdout.replaceAll("\0", "") : read.value.stdout);
  for (const fault of subject.lines.judge(found, crashed)) complain(`file: ${fault}`);
  if (crashed) subject.lines.adopt(found);
}

async function checkClock(subject: Subject, complain: (text: string) => void): Promise<void> {
  const before = Date.now();
  const read = await subject.attempt("exec", () => subject.direct.exec("date +%s%3N", { timeoutMs: READ_MS }));
  if (!read.ok) return;
  const clock = Number(read.value.stdout);
  const off = clock < before ? before - clock : Math.max(0, clock - Date.now());
  if (!(off < CLOCK_MS)) complain(`its clock is off by ${off} ms`);
}

function numbers(text: string): number[] {
  return text.split(/\s+/).filter(Boolean).map(Number);
}
