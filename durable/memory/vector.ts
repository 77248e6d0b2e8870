/** Embeddings: 32-bit numbers of length 1, so that the cosine of two is the sum of their products. Pure. */

/** How far from 1 the square of a length may be and count as 1: what was stored is stored again as it is. */
const CLOSE = 1e-5;

export function normalised(vector: readonly number[]): Float32Array<ArrayBuffer> {
  const length = Math.hypot(...vector);
  return Math.abs(length * length - 1) < CLOSE
    ? new Float32Array(vector)
    : new Float32Array(vector.map((one) => one / length));
}

/** As bytes to store, little-endian. */
export function bytesOf(vector: Float32Array<ArrayBuffer>): ArrayBuffer {
  return vector.buffer.slice(vector.byteOffset, vector.byteOffset + vector.byteLength);
}

export function vectorOf(bytes: ArrayBuffer): Float32Array<ArrayBuffer> {
  return new Float32Array(bytes);
}

export function cosine(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] ?? 0) * (b[i] ?? 0);
  return sum;
}
