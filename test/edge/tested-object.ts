/** What tests do to an object: its alarm, the clock, its end in the middle of things. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { shift } from "./volumes.ts";

export abstract class TestedObject {
  /** A new one each time: after a crash an older one is of no use. */
  abstract get stub(): DurableObjectStub;

  /** The alarm goes off, twice. */
  async alarm(): Promise<void> {
    await runDurableObjectAlarm(this.stub);
    await runDurableObjectAlarm(this.stub);
  }

  /** The clock goes on, and the alarm goes off. */
  async pass(ms: number): Promise<void> {
    shift(ms);
    await this.alarm();
  }

  evict(): Promise<void> {
    return evictDurableObject(this.stub);
  }

  /** The object ends at once, in the middle of whatever it does. */
  async crash(stub = this.stub): Promise<void> {
    // Who asks for that is never answered.
    const end = runInDurableObject(stub, (_object, state) => state.abort("crashed by a test"));
    await Promise.race([end.catch(() => undefined), scheduler.wait(100)]);
  }
}
