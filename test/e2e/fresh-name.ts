let counter = 0;

/** A name no other test has. */
export function freshName(topic: string): string {
  return `${topic}-${process.pid}-${++counter}`;
}
