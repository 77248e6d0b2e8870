/** A sandbox's life: what the table of `lifecycle.ts` decides about, and what happens to it. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { SandboxState, StopReason } from "../../sdk/contract/sandbox.ts";
import type { GuestTimer } from "../../sdk/contract/guest-timer.ts";
import type { WakeTimer } from "./guest-timer.ts";
import type { Lease } from "./lease.ts";

/** How the current generation began, or begins. */
export type RunKind = "create" | "wake" | "boot";

/** `cut_off`: the account has no means for it; `stopReason` says which. */
export type PauseReason = "idle" | "requested" | "time_limit" | "cut_off";

/** What the table decides about. All times are Unix milliseconds. */
export interface Life {
  readonly state: SandboxState;
  readonly generation: number;
  readonly run: RunKind;
  /** Why the pause under way was begun. */
  readonly pauseReason: PauseReason | null;
  /** Somebody wants the sandbox awake as soon as the pause under way ends. */
  readonly wakeAfterPause: boolean;
  /** Tries of the step under way that found no host. */
  readonly attempts: number;
  /** When the step under way is looked at again; null when none is. */
  readonly nextTryAt: number | null;
  /** The host holds a disk of this sandbox. */
  readonly diskKept: boolean;
  /** A host may still hold something of a deleted sandbox. */
  readonly purgePending: boolean;
  /** What a deleted sandbox was, for as long as it can be taken back; null when it can't. */
  readonly undeleteTo: "paused" | "stopped" | null;
  readonly retentionDays: number;
  /** The run that the state at rest is of, RAM or disk alone; null while one is live. */
  readonly savedGeneration: number | null;
  readonly lease: Lease;
  /** What a sleeper is woken for by itself; null once it runs, or is stopped. */
  readonly timer: WakeTimer | null;
  readonly readyAt: number | null;
  readonly lastActiveAt: number | null;
  readonly pausedAt: number | null;
  readonly endedAt: number | null;
  readonly stopReason: StopReason | null;
  readonly memoryRestored: boolean | null;
  /** Why the last step failed; null after one that worked. */
  readonly failure: Failure | null;
}

/** What happened, or what somebody asks for. Events with a generation come from a host. */
export type LifeEvent =
  /** `leaseSeconds`: the time limit of the run it begins, instead of the sandbox's own. */
  | { readonly type: "wake"; readonly leaseSeconds?: number }
  | { readonly type: "restart" }
  /** Run again whatever it takes: from RAM where there is some, else from disk. */
  | { readonly type: "recover" }
  | { readonly type: "pause"; readonly reason: "idle" | "requested" }
  | { readonly type: "extend"; readonly seconds: number }
  | { readonly type: "leaseEnd" }
  | { readonly type: "stop" }
  /** `graceMs`: how long a sandbox at rest can be taken back. */
  | { readonly type: "delete"; readonly graceMs?: number }
  | { readonly type: "undelete" }
  /** `unpaid`: whatever its retention. */
  | { readonly type: "expire"; readonly unpaid?: boolean }
  | { readonly type: "ran"; readonly generation: number; readonly lastActiveAt: number }
  | {
      readonly type: "runFailed";
      readonly generation: number;
      readonly savedGeneration?: number | null;
      /** Whether the RAM of before can still be loaded. */
      readonly memory: "saved" | "none";
      /** No host took the machine: nothing of it exists. */
      readonly nothingMade: boolean;
      readonly failure: Failure;
    }
  | {
      readonly type: "paused";
      readonly generation: number;
      readonly savedGeneration?: number | null;
      readonly reason?: StopReason;
      readonly lastActiveAt?: number;
      /** When a program in it must run next, as its host says. */
      readonly timer?: GuestTimer | null | undefined;
    }
  | { readonly type: "pauseRefused"; readonly generation: number }
  | { readonly type: "pauseFailed"; readonly generation: number; readonly failure: Failure }
  | { readonly type: "stopped"; readonly generation: number; readonly savedGeneration?: number | null }
  | {
      readonly type: "ended";
      readonly generation: number;
      readonly savedGeneration?: number | null;
      readonly reason: StopReason;
    }
  | {
      readonly type: "unreachable";
      readonly generation: number;
      readonly from: SandboxState;
      readonly failure: Failure;
    }
  /**
   * The timer of a program in it may be due. `generation`: of the life that was looked at. `putOffTo`: it may not wake
   * before. `failed`: it can't now, and is tried again later.
   */
  | { readonly type: "timer"; readonly generation: number; readonly putOffTo?: number; readonly failed?: boolean }
  /** The account does not allow the run: nothing of it was begun. */
  | { readonly type: "refused"; readonly generation: number; readonly failure: Failure }
  /** The account has no means for the run under way any more. */
  | { readonly type: "cutOff"; readonly reason: StopReason }
  /** The host has been silent for longer than its lease: nothing of the sandbox runs there. */
  | { readonly type: "hostLost"; readonly generation: number; readonly failure: Failure }
  | { readonly type: "purged" };
