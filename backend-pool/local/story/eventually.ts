/** Waiting for what a story needs. */

/** @param tries looks, half a second apart. @throws Error when it does not come to hold; a look that fails is one that does not */
export async function eventually(holds: () => Promise<boolean>, tries: number): Promise<void> {
  for (let n = 0; ; n++) {
    const done = await holds().catch(() => false);
    if (done) return;
    if (n > tries) throw new Error("it took too long");
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
