/** What the TypeScript examples of the documentation may take for granted. */
import type { Rouse, Sandbox } from "rouse";

declare global {
  /** `new Rouse()` */
  const rouse: Rouse;
  const sandbox: Sandbox;
  /** Another sandbox than `sandbox`. */
  const other: Sandbox;
  const agent: Sandbox;
  /** A key of a model's API. */
  const key: string;
  /** A secret. */
  const value: string;
  /** Of a key in the state of a sandbox. */
  const version: number;
  /** One step of what a program does. */
  function work(step: number): Promise<void>;
}
