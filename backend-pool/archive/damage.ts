/** What can be wrong with a saved state, as types: callers turn them into codes of the API. */

/** A blob of a saved state is not there, or is not what it was. Retrying does not help. */
export class DamagedState extends Error {
  override readonly name = "DamagedState";
  /** Id of the blob. */
  readonly blob: string;
  readonly fault: "missing" | "damaged";

  constructor(blob: string, fault: "missing" | "damaged", reason: string, cause?: unknown) {
    super(`Blob ${blob} is ${fault}: ${reason}.`, cause === undefined ? undefined : { cause });
    this.blob = blob;
    this.fault = fault;
  }
}

/** The part is stored as the difference to a base, and no clone of that base was given. */
export class BaseNeeded extends Error {
  override readonly name = "BaseNeeded";
  readonly part: string;
  readonly base: string;

  constructor(part: string, base: string) {
    super(`Part ${part} is the difference to ${base}, and needs a clone of it.`);
    this.part = part;
    this.base = base;
  }
}

/** A file changed, or ended, while it was sealed; or the state is larger than a manifest can tell. */
export class Unsealable extends Error {
  override readonly name = "Unsealable";
}
