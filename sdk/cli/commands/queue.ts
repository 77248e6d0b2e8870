/** Verbs for queues of tasks that a sandbox keeps outside of its machine. */
import { queueLimits } from "../../contract/queue.ts";
import { UsageError } from "../args.ts";
import { group, type Part } from "../group.ts";
import { ago, table } from "../output.ts";

const put: Part = {
  name: "put",
  summary: "Put a task with a JSON payload",
  usage: "<sandbox> <queue> <json> [options]",
  words: [3, 3],
  options: {
    delay: { type: "string", value: "SECONDS", help: "Not before so many seconds" },
    attempts: { type: "string", value: "N", help: "Takes before it is dead (5)" },
    key: { type: "string", value: "K", help: "Under the same key it is put once" },
  },
  async run({ args, out, sandbox }) {
    const [which = "", queue = "", text = ""] = args.positionals;
    let payload: unknown;
    try {
      payload = JSON.parse(text);
    } catch {
      throw new UsageError("the payload is not JSON", `Such as '{"to":"ada"}', or '"text"'.`);
    }
    const delaySeconds = args.whole("delay", 0, queueLimits.delaySecondsMax);
    const maxAttempts = args.whole("attempts", 1, queueLimits.attemptsMax);
    const options = { delaySeconds, maxAttempts, idempotencyKey: args.text("key") };
    const task = await (await sandbox(which)).queues(queue).put(payload, options);
    out.result(`${task.id}: ${task.state}`, task);
    return 0;
  },
};

const take: Part = {
  name: "take",
  summary: "Take the oldest tasks; print each with its lease",
  usage: "<sandbox> <queue> [options]",
  words: [2, 2],
  options: {
    max: { type: "string", value: "N", help: "At most so many (1)" },
    lease: { type: "string", value: "SECONDS", help: "How long it is yours (60)" },
    wait: { type: "string", value: "SECONDS", help: "Wait for one, at most 20 (0)" },
  },
  async run({ args, out, sandbox }) {
    const [which = "", queue = ""] = args.positionals;
    const data = await (await sandbox(which)).queues(queue).take({
      max: args.whole("max", 1, queueLimits.takeMax),
      leaseSeconds: args.whole("lease", 1, queueLimits.leaseSecondsMax),
      waitSeconds: args.whole("wait", 0, queueLimits.waitSecondsMax),
    });
    const rows = data.map((task) => [
      task.id,
      task.lease,
      `${task.attempts}/${task.maxAttempts}`,
      JSON.stringify(task.payload),
    ]);
    out.result(rows.length === 0 ? "No task is ready." : table(["TASK", "LEASE", "ATTEMPT", "PAYLOAD"], rows), {
      data,
    });
    return 0;
  },
};

const ack: Part = {
  name: "ack",
  summary: "Say that a task is done; or with --failed that it is not",
  usage: "<sandbox> <queue> <task> <lease> [--failed WHY] [--delay SECONDS]",
  words: [4, 4],
  options: {
    failed: { type: "string", value: "WHY", help: "It failed, and can be taken again" },
    delay: { type: "string", value: "SECONDS", help: "With --failed: not before so many seconds" },
  },
  async run({ args, out, sandbox }) {
    const [which = "", queue = "", id = "", lease = ""] = args.positionals;
    const error = args.text("failed");
    const delaySeconds = args.whole("delay", 0, queueLimits.delaySecondsMax);
    if (error === undefined && delaySeconds !== undefined)
      throw new UsageError("--delay needs --failed", "A task that is done does not come again.");
    const named = (await sandbox(which)).queues(queue);
    const task =
      error === undefined ? await named.ack({ id, lease }) : await named.nack({ id, lease }, { error, delaySeconds });
    out.result(`${id}: ${task.state}`, task);
    return 0;
  },
};

const ls: Part = {
  name: "ls",
  summary: "List queues, or the tasks of one",
  usage: "<sandbox> [<queue>]",
  words: [1, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", queue] = args.positionals;
    const { queues } = await sandbox(which);
    const now = Date.now();
    if (queue !== undefined) {
      const data = await (await queues(queue).list({ limit: queueLimits.listMax })).toArray();
      const rows = data.map((task) => [
        ...[
          task.id,
          task.state,
          `${task.attempts}/${task.maxAttempts}`,
          ago(task.putAt, now),
          JSON.stringify(task.payload),
        ],
      ]);
      out.result(rows.length === 0 ? "No tasks." : table(["TASK", "STATE", "ATTEMPTS", "PUT", "PAYLOAD"], rows), {
        data,
      });
      return 0;
    }
    const data = await queues.list();
    const rows = data.map((one) => [one.name, one.ready, one.delayed, one.leased, one.dead].map(String));
    out.result(rows.length === 0 ? "No tasks." : table(["QUEUE", "READY", "DELAYED", "LEASED", "DEAD"], rows), {
      data,
    });
    return 0;
  },
};

const dead: Part = {
  name: "dead",
  summary: "List dead tasks; make them ready again, or delete one",
  usage: "<sandbox> <queue> [--retry TASK|all] [--rm TASK]",
  words: [2, 2],
  options: {
    retry: { type: "string", value: "TASK", help: "Ready again; all for every one" },
    rm: { type: "string", value: "TASK", help: "Delete it" },
  },
  async run({ args, out, sandbox }) {
    const [which = "", name = ""] = args.positionals;
    const queue = (await sandbox(which)).queues(name);
    const [retry, rm] = [args.text("retry"), args.text("rm")];
    if (retry !== undefined && rm !== undefined) throw new UsageError("--retry or --rm, not both", "One at a time.");
    if (retry === "all") {
      const retried = await queue.retryDead();
      out.result(`${retried} ready again`, { retried });
    } else if (retry !== undefined) {
      out.result(`${retry}: ready`, await queue.retry(retry));
    } else if (rm !== undefined) {
      out.result(`${rm}: deleted`, await queue.delete(rm));
    } else {
      const data = await (await queue.list({ state: "dead", limit: queueLimits.listMax })).toArray();
      const rows = data.map((task) => [
        task.id,
        String(task.attempts),
        task.lastError ?? "",
        JSON.stringify(task.payload),
      ]);
      out.result(rows.length === 0 ? "No dead tasks." : table(["TASK", "ATTEMPTS", "LAST ERROR", "PAYLOAD"], rows), {
        data,
      });
    }
    return 0;
  },
};

export const queue = group({
  name: "queue",
  summary: "Queues of tasks of a sandbox that may sleep",
  details:
    "They are kept outside of the machine, which is not woken. Inside it they are at http://rouse.internal/queues.\n" +
    "Each task is done at least once: one that is not acknowledged within its lease comes again, and is dead at last.",
  parts: [put, take, ack, ls, dead],
});
