/** How fast one key may call: a bucket of tokens for each, in this isolate. Pure but for the map. */
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { BoundedMap } from "../bounded-map.ts";

export interface Rate {
  /** Calls a second that may go on for ever. */
  readonly perSecond: number;
  /** Calls at once after a rest. */
  readonly burst: number;
}

export const DEFAULT_RATE: Rate = { perSecond: 50, burst: 200 };

export interface Bucket {
  readonly tokens: number;
  /** Unix milliseconds. */
  readonly at: number;
}

/** The bucket after one more call, and how long to wait first when it is empty, milliseconds. */
export function take(bucket: Bucket | undefined, rate: Rate, now: number): { bucket: Bucket; waitMs: number } {
  const before = bucket ?? { tokens: rate.burst, at: now };
  const elapsed = Math.max(0, now - before.at);
  const tokens = Math.min(rate.burst, before.tokens + (elapsed / 1000) * rate.perSecond);
  if (tokens >= 1) return { bucket: { tokens: tokens - 1, at: now }, waitMs: 0 };
  return { bucket: { tokens, at: now }, waitMs: Math.ceil(((1 - tokens) / rate.perSecond) * 1000) };
}

const buckets = new BoundedMap<Bucket>(16_384);

/** @param who for the message. @param setting `<per second>:<burst>`. @throws RouseFailure `rate_limited` */
export function limitRate(key: string, setting: string | undefined, now: number, who = "with this key"): void {
  const [perSecond = NaN, burst = NaN] = (setting ?? "").split(":").map(Number);
  const rate = perSecond > 0 && burst >= 1 ? { perSecond, burst } : DEFAULT_RATE;
  const { bucket, waitMs } = take(buckets.get(key), rate, now);
  buckets.set(key, bucket);
  if (waitMs === 0) return;
  throw new RouseFailure("rate_limited", `More than ${rate.perSecond} calls a second ${who}.`, {
    details: { perSecond: rate.perSecond, burst: rate.burst },
    retryAfterMs: waitMs,
  });
}
