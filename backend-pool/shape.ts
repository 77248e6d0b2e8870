/** Shapes: what makes two machines interchangeable. Pure. */
import type { Shape } from "../sdk/contract/host.ts";
import { defaults } from "../sdk/contract/sandbox.ts";

/** A shape with the default of everything that is not said. */
export function shapeOf(wanted: Partial<Shape>): Shape {
  const { image, vcpu, memoryMiB, diskMiB } = defaults;
  return { image, vcpu, memoryMiB, diskMiB, ...wanted };
}
