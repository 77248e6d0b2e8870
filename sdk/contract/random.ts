/** Texts that nobody can guess. Pure but for the platform's random numbers. */

/** What ids are made of. */
export const BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz";

export function randomText(alphabet: string, length: number): string {
  let out = "";
  while (out.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      // Bytes past the last whole multiple of the alphabet would favour its first letters.
      if (byte < 256 - (256 % alphabet.length) && out.length < length) out += alphabet[byte % alphabet.length];
    }
  }
  return out;
}
