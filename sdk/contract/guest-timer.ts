/**
 * Timers of programs in a sandbox: when one of them must run next. The guest agent keeps them (`/timers` on its port of
 * the loopback); before a sleep the host asks for the earliest, and the sandbox is awake again just in time.
 */
import { z } from "zod";
import { guestLimits, timerName } from "./guest-limits.ts";

export const TimerName = z.string().regex(timerName, "1-64 of a-z 0-9 -");

/** `PUT /timers/{name}` in the guest: exactly one of both. */
export const SetGuestTimer = z
  .strictObject({
    at: z.iso.datetime({ offset: true }).optional(),
    inSeconds: z
      .int()
      .min(1)
      .max(guestLimits.timerDays * 86_400)
      .optional(),
  })
  .refine(({ at, inSeconds }) => (at === undefined) !== (inSeconds === undefined), {
    message: "exactly one of at and inSeconds",
    path: ["at"],
  });

export const GuestTimer = z.object({ name: TimerName, at: z.iso.datetime() });
export type GuestTimer = z.infer<typeof GuestTimer>;

/** `GET /timers` in the guest: those that have not passed, the earliest first. */
export const GuestTimers = z.object({ data: z.array(GuestTimer).max(guestLimits.timers) });
