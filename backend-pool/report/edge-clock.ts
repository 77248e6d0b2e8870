/** The edge's clock as this host knows it: one that is off here, or is set, must not make good tickets old ones. */
export class EdgeClock {
  /** The edge's time when this host's monotonic clock was 0; null before anything was heard. */
  #origin: number | null = null;

  /** @param edgeNow the edge's time between the two, of the monotonic clock; undefined from an edge that does not say */
  heard(edgeNow: number | undefined, sentAt: number, answeredAt: number): void {
    if (edgeNow !== undefined) this.#origin = edgeNow - (sentAt + answeredAt) / 2;
  }

  /** Unix milliseconds. */
  now(): number {
    return this.#origin === null ? Date.now() : this.#origin + performance.now();
  }
}
