/** Times as the wire has them: ISO 8601 in UTC. */
export function timeText(time: string | Date | undefined): string | undefined {
  return time instanceof Date ? time.toISOString() : time;
}
