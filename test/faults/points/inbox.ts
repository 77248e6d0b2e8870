/**
 * What dies while webhooks come in, wake a machine and are delivered. Real machines, whose program counts in RAM: what
 * was acknowledged runs, in order, and once each unless a try broke off that the program may have seen.
 */
import { setTimeout as delay } from "node:timers/promises";
import { age, ageInbox } from "../edge-storage.ts";
import { Inbox, signed } from "../inbox.ts";
import type { Point, Stage } from "../point.ts";
import { about } from "../proxy.ts";

/** A local wake takes about so long, milliseconds. */
const WAKE_MS = 350;
const HOUR_MS = 3_600_000;

/** The edge is away for so long, by all that it wrote down. */
async function edgeAwayFor(stage: Stage, { witness }: Inbox, ms: number): Promise<void> {
  await stage.world.killEdge();
  await age(stage.world.stateDir, witness.id, ms);
  await ageInbox(stage.world.stateDir, witness.id, ms);
  await stage.world.startEdge();
}

/** The program ends at its next delivery, before or after it has answered, and is started again. */
async function programDies(stage: Stage, when: "before" | "after"): Promise<{ inbox: Inbox; id: string }> {
  const inbox = await Inbox.open(stage);
  const { pid } = await inbox.memory();
  await inbox.witness.patient.files.write("/workspace/dies", when);
  const id = await inbox.sent();
  stage.note(`program ended ${when} its answer to a delivery, before it did anything`);
  await stage.until("it was started again", async () => (await inbox.memory()).pid !== pid, 90_000);
  return { inbox, id };
}

export const inbox: readonly Point[] = [
  {
    name: "inbox/edge-killed-between-store-and-wake",
    place: "qemu",
    async play(stage) {
      const inbox = await Inbox.open(stage);
      await inbox.sleep();
      const wake = stage.world.toHost.rule("lost", about.act(inbox.witness.label, "wake"), 1000);
      const ids = [await inbox.sent(), await inbox.sent()];
      await wake.seen;
      await stage.killEdge("the time between two acknowledgements and the wake", 50);
      await stage.world.toHost.heal();
      await inbox.ran(ids);
    },
  },
  {
    name: "inbox/edge-killed-under-arrivals",
    place: "qemu",
    async play(stage) {
      const inbox = await Inbox.open(stage);
      await inbox.sleep();
      const sending = Promise.all(Array.from({ length: 8 }, () => inbox.sent()));
      await stage.killEdge("the arrival of 8 webhooks", 400);
      const ids = await sending;
      stage.expect(new Set(ids).size === 8, `8 webhooks, sent until acknowledged, are ${new Set(ids).size} events`);
      // They came at the same time: the edge says in which order.
      const listed = await inbox.witness.patient.hooks.events.list({ hookId: inbox.hook.id, limit: 100 });
      stage.expect(listed.data.length === 8, `of 8 webhooks ${listed.data.length} events are known`);
      await inbox.delivered(ids);
      const { seen } = await inbox.memory();
      for (const id of ids) stage.expect(id in seen, `event ${id} is delivered, and did not run`);
      const bodies = Object.entries(seen).filter(([id]) => ids.includes(id));
      stage.expect(new Set(bodies.map(([, { body }]) => body)).size === 8, "a webhook has two events");
    },
  },
  {
    name: "inbox/host-killed-in-the-middle-of-the-wake",
    place: "qemu",
    async play(stage) {
      const inbox = await Inbox.open(stage);
      await inbox.sleep();
      const ids = [await inbox.sent(), await inbox.sent()];
      await stage.killHost("a wake by webhooks", WAKE_MS);
      await inbox.ran(ids, false);
    },
  },
  {
    name: "inbox/host-killed-before-the-wake-is-answered",
    place: "qemu",
    thorough: true,
    async play(stage) {
      const inbox = await Inbox.open(stage);
      await inbox.sleep();
      const answer = stage.world.toHost.rule("answer held", about.act(inbox.witness.label, "wake"));
      const ids = [await inbox.sent(), await inbox.sent()];
      await answer.arrived;
      await stage.killHost("the time between a wake by webhooks and its answer", 50);
      await stage.world.toHost.heal();
      await inbox.ran(ids);
    },
  },
  {
    name: "inbox/program-killed-before-its-answer",
    place: "qemu",
    async play(stage) {
      const { inbox, id } = await programDies(stage, "before");
      await inbox.ran([id]);
    },
  },
  {
    // Its answer takes the event over: what it does with it from then on is its own to keep.
    name: "inbox/program-killed-after-its-answer",
    place: "qemu",
    async play(stage) {
      const { inbox, id } = await programDies(stage, "after");
      const [event] = await inbox.delivered([id]);
      stage.expect(event?.attempts === 1, `an event that was answered with 202 was tried ${event?.attempts} times`);
      const next = await inbox.sent();
      await inbox.ran([next]);
      stage.expect(!(id in (await inbox.memory()).seen), "an event that the program took was delivered again");
      await inbox.witness.patient.hooks.events.replay(id);
      await inbox.ran([next, id]);
    },
  },
  {
    name: "inbox/agent-killed-in-the-middle-of-a-delivery",
    place: "qemu",
    async play(stage) {
      const inbox = await Inbox.open(stage, { path: "/slow" });
      await inbox.sleep();
      const ids = [await inbox.sent(), await inbox.sent()];
      await stage.until("the program has it", async () => (ids[0] ?? "") in (await inbox.memory()).seen, 90_000);
      stage.note("guest agent killed while the program has a delivery");
      await stage.calm(inbox.witness.once("sudo pkill -9 -f rouse-agent"));
      inbox.witness.forgetNumbers();
      const { patient } = inbox.witness;
      await stage.until("commands run again", async () => (await patient.exec("true")).exitCode === 0);
      await inbox.ran(ids, false);
    },
  },
  {
    name: "inbox/guest-clock-an-hour-off",
    place: "qemu",
    async play(stage) {
      const inbox = await Inbox.open(stage);
      const off = () =>
        inbox.witness.patient.exec("sudo date -s @$(( $(date +%s) + 3600 ))", { check: true, timeoutMs: 20_000 });
      await off();
      stage.note("the guest's clock set an hour ahead, awake at one delivery, asleep before another");
      const awake = await inbox.sent();
      await inbox.ran([awake]);
      await off();
      await inbox.sleep();
      const woken = await inbox.sent();
      await inbox.ran([awake, woken]);
      const { seen } = await inbox.memory();
      stage.expect((seen[awake]?.clock ?? 0) * 1000 > Date.now() + HOUR_MS / 2, "the guest's clock was right");
      for (const id of [awake, woken]) {
        const { at = "", body = "", signature = "" } = seen[id] ?? {};
        const aside = Math.abs(Number(at) * 1000 - Date.now());
        stage.expect(aside < 120_000, `a delivery has a time that is off by ${aside} ms`);
        const right = signed(inbox.hook.deliverySecret ?? "", id, body, at)["webhook-signature"];
        stage.expect(signature === right, `a delivery is signed with ${signature} in place of ${right}`);
      }
      // A wake sets it right.
      const { at = "", clock = 0 } = seen[woken] ?? {};
      stage.expect(Math.abs(clock - Number(at)) < 60, `after a wake the guest's clock is at ${clock}, not at ${at}`);
    },
  },
  {
    name: "inbox/a-day-of-updates-asleep",
    place: "qemu",
    async play(stage) {
      const inbox = await Inbox.open(stage, { provider: "telegram" });
      const { patient } = inbox.witness;
      await patient.update({ autoWake: false });
      await inbox.sleep();
      inbox.witness.asleep();
      const ids: string[] = [];
      for (let n = 1; n <= 25; n++) ids.push(await inbox.sent(n));
      stage.note("25 updates of Telegram came for a machine that may not wake; 25 hours without the edge passed");
      await edgeAwayFor(stage, inbox, 25 * HOUR_MS);
      // Telegram sends again what it has no answer of.
      for (let n = 23; n <= 25; n++) stage.expect((await inbox.sent(n)) === ids[n - 1], `update ${n} is a new event`);
      ids.push(await inbox.sent(26));
      await delay(1000);
      stage.expect((await patient.refresh()).state === "paused", `it is ${patient.state}, and may not wake`);
      inbox.witness.waking();
      await patient.update({ autoWake: true });
      await edgeAwayFor(stage, inbox, HOUR_MS);
      await inbox.ran(ids);
    },
  },
];
