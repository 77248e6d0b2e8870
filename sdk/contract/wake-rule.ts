/** Which requests to a named URL wake a sandbox, keep it awake, or never reach it. */
import { z } from "zod";

export const wakeRuleLimits = { rulesMax: 32, bodyMax: 4096, wakesPerHourMax: 3600 } as const;

/** What a request must have: all of what is given. */
const Match = z
  .strictObject({
    methods: z
      .array(z.string().regex(/^[A-Z]{1,20}$/, "a method such as GET"))
      .min(1)
      .max(10)
      .optional(),
    /** A path such as `/health`, or with `*` at its end all that begin so. Without the query. */
    path: z
      .string()
      .regex(/^\/[^*?#]*\*?$/, "a path from / on, with * at its end at most")
      .max(200)
      .optional(),
    /** Text in the `user-agent`, in small letters or capitals. */
    userAgent: z.string().min(1).max(200).optional(),
    port: z.int().min(1).max(65_535).optional(),
    /** What let the request in: the id of an API key or share link, or `none` for one that showed neither. */
    credential: z
      .string()
      .regex(/^[\w-]+$/, "the id of a key or link, or none")
      .max(100)
      .optional(),
  })
  .refine((match) => Object.keys(match).length > 0, "say what requests the rule is for");

export const wakeActions = ["answer", "ignore", "no_wake", "no_keep"] as const;

/**
 * `answer`: the edge answers. `ignore`: the edge answers 204. `no_wake`: a sandbox that sleeps is not woken, and
 * `sandbox_paused` is answered; one that runs gets the request. `no_keep`: the request wakes, and does not count as use.
 */
export const WakeRule = z
  .strictObject({
    match: Match,
    action: z.enum(wakeActions),
    /** Of `answer` and `ignore`: only while the sandbox sleeps (the default), or always. */
    when: z.enum(["asleep", "always"]).optional(),
    /** Of `answer`; 200 unless said. */
    status: z.int().min(200).max(599).optional(),
    /** Of `answer`; at most 4096 characters. */
    body: z.string().max(wakeRuleLimits.bodyMax).optional(),
    /** Of `answer`; `text/plain; charset=utf-8` unless said. */
    contentType: z
      .string()
      .regex(/^[\w.+-]+\/[\w.+-]+(; ?charset=[\w-]+)?$/, "a media type")
      .max(100)
      .optional(),
  })
  .refine((rule) => rule.action === "answer" || (rule.status ?? rule.body ?? rule.contentType) === undefined, {
    message: "status, body and contentType are of the action answer",
    path: ["action"],
  })
  .refine((rule) => rule.action === "answer" || rule.action === "ignore" || rule.when === undefined, {
    message: "when is of the actions answer and ignore",
    path: ["when"],
  })
  .meta({ id: "WakeRule" });
export type WakeRule = z.infer<typeof WakeRule>;

/** The first that matches counts. */
export const WakeRules = z.array(WakeRule).max(wakeRuleLimits.rulesMax);

/** How often requests and webhooks may wake a sandbox within an hour; calls of the API always may. */
export const MaxWakesPerHour = z.int().min(1).max(wakeRuleLimits.wakesPerHourMax);

/** What rules look at. */
export interface RuleSubject {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly userAgent: string;
  readonly port: number;
  /** Id of the key or link; null without one. */
  readonly credential: string | null;
}

/** The rule that a request falls under; null for none. */
export function ruleFor(rules: readonly WakeRule[], subject: RuleSubject): WakeRule | null {
  return rules.find(({ match }) => matches(match, subject)) ?? null;
}

/** Whether a rule keeps a request from a sandbox that is in that state. */
export function isKeptBack({ action, when }: WakeRule, isRunning: boolean): boolean {
  if (action === "no_keep") return false;
  return !isRunning || when === "always";
}

function matches(match: WakeRule["match"], subject: RuleSubject): boolean {
  const { methods, path, userAgent, port, credential } = match;
  if (credential !== undefined && credential !== (subject.credential ?? "none")) return false;
  if (methods && !methods.includes(subject.method)) return false;
  if (port !== undefined && port !== subject.port) return false;
  if (userAgent !== undefined && !subject.userAgent.toLowerCase().includes(userAgent.toLowerCase())) return false;
  if (path === undefined) return true;
  return fitsPath(path, subject.path);
}

/** @param pattern a path, or with `*` at its end all that begin so */
export function fitsPath(pattern: string, path: string): boolean {
  return pattern.endsWith("*") ? path.startsWith(pattern.slice(0, -1)) : path === pattern;
}
