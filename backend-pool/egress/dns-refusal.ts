/** A DNS answer that refuses. Pure. */

const HEADER_BYTES = 12;
const REFUSED = 5;

/** The query's header, answered REFUSED (RFC 1035, section 4.1.1); no question is repeated. */
export function refusedDns(query: Buffer): Buffer {
  const answer = Buffer.alloc(HEADER_BYTES);
  if (query.length < HEADER_BYTES) return answer;
  query.copy(answer, 0, 0, 4);
  // An answer to the same kind of query, recursion wanted as it was, recursion available.
  answer[2] = 0x80 | ((query[2] ?? 0) & 0x79);
  answer[3] = 0x80 | REFUSED;
  return answer;
}
