/** What fails inside of a machine, or is its process, while it runs. Real machines. */
import type { Point } from "../point.ts";

export const guest: readonly Point[] = [
  {
    name: "guest/kernel-panic",
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      witness.crash = "yes";
      const ms = await stage.moment(300);
      stage.note(`the guest's kernel panicked, ${ms} ms after its last command`);
      // The command ends with the machine, so its answer never comes.
      await stage.calm(witness.once("echo 1 | sudo tee /proc/sys/kernel/sysrq; echo c | sudo tee /proc/sysrq-trigger"));
      await stage.until("its end is told", async () => (await witness.patient.refresh()).state === "stopped");
      const { stopReason } = witness.patient.info;
      stage.expect(stopReason === "vm_crashed", `it is stopped with ${stopReason}`);
    },
  },
  {
    name: "guest/agent-killed",
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      const ms = await stage.moment(300);
      stage.note(`guest agent killed, ${ms} ms after its last command`);
      await stage.calm(witness.once("sudo pkill -9 -f rouse-agent"));
      await stage.until("commands run again", async () => (await witness.patient.exec("true")).exitCode === 0);
      // The interpreter is the agent's child, and what is in it may go with it; the machine and its disk may not.
      stage.expect((await witness.lifeNow()) === witness.life, "the machine was booted anew");
      await witness.line();
      witness.forgetNumbers();
    },
  },
  {
    name: "guest/agent-killed-then-paused",
    place: "qemu",
    thorough: true,
    async play(stage) {
      const witness = await stage.witness();
      stage.note("guest agent killed, and the machine paused at once");
      await stage.calm(witness.once("sudo pkill -9 -f rouse-agent"));
      await witness.pause();
      witness.waking();
      await stage.until("commands run again", async () => (await witness.patient.exec("true")).exitCode === 0);
      witness.forgetNumbers();
    },
  },
  {
    name: "qemu/killed-while-it-runs",
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      witness.crash = "yes";
      const ms = await stage.moment(500);
      const killed = await stage.killMachine(witness);
      stage.note(`${killed} QEMU killed, ${ms} ms after its last command`);
      await stage.until("its end is told", async () => (await witness.patient.refresh()).state === "stopped");
      const { stopReason } = witness.patient.info;
      stage.expect(stopReason === "vm_crashed", `it is stopped with ${stopReason}`);
      const refused = await stage.calm(witness.patient.exec("true"));
      stage.expect(refused === "sandbox_stopped", `a command in a stopped sandbox: ${refused ?? "ran"}`);
    },
  },
  {
    name: "qemu/killed-while-the-host-is-away",
    place: "qemu",
    thorough: true,
    async play(stage) {
      const witness = await stage.witness();
      witness.crash = "yes";
      await stage.world.killHost();
      const ms = await stage.moment(300);
      const killed = await stage.killMachine(witness);
      stage.note(`${killed} QEMU killed, ${ms} ms after its host agent`);
      await stage.world.startHost();
      await stage.until("its end is told", async () => (await witness.patient.refresh()).state === "stopped");
      const { stopReason } = witness.patient.info;
      stage.expect(stopReason === "vm_crashed", `it is stopped with ${stopReason}`);
    },
  },
];
