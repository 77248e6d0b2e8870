/** The edge's clock as this host knows it: a host whose own clock is off must not take good tickets for old ones. */
export class EdgeClock {
  #aheadMs = 0;

  /** @param edgeNow the edge's time between the two of this host's; undefined from an edge that does not say */
  heard(edgeNow: number | undefined, sentAt: number, answeredAt: number): void {
    if (edgeNow !== undefined) this.#aheadMs = edgeNow - (sentAt + answeredAt) / 2;
  }

  /** Unix milliseconds. */
  now(): number {
    return Date.now() + this.#aheadMs;
  }
}
