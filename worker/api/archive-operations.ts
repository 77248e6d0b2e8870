/** Operations on folders as tar archives. */
import { z } from "zod";
import { BeginUnpack, ChunkQuery, PackQuery, Unpacked, UnpackQuery, Upload } from "../../sdk/contract/guest.ts";
import type { Operation } from "./operation.ts";

const Empty = z.strictObject({});
const ARCHIVE = "/v1/sandboxes/{id}/files/archive";
const UPLOADS = `${ARCHIVE}/uploads`;

/** Of its guest agent. */
export const archives: readonly Omit<Operation, "work">[] = [
  {
    method: "GET",
    path: ARCHIVE,
    summary: "What a folder holds, as a tar archive; gzipped unless said.",
    query: PackQuery,
    answer: "bytes",
  },
  {
    method: "PUT",
    path: ARCHIVE,
    summary: "Unpack a tar archive into a folder, gzipped or not.",
    query: UnpackQuery,
    body: "bytes",
    answer: Unpacked,
  },
  {
    method: "POST",
    path: UPLOADS,
    summary: "Begin an archive that comes in parts.",
    body: BeginUnpack,
    answer: Upload,
  },
  {
    method: "PUT",
    path: `${UPLOADS}/{upload}`,
    summary: "Send the next part; it is unpacked as it comes.",
    query: ChunkQuery,
    body: "bytes",
    answer: z.object({ received: z.int() }),
  },
  {
    method: "POST",
    path: `${UPLOADS}/{upload}:commit`,
    summary: "End an archive; answers once all of it is unpacked.",
    body: Empty,
    answer: Unpacked,
  },
  {
    method: "POST",
    path: `${UPLOADS}/{upload}:abort`,
    summary: "Give an archive up; what is unpacked stays.",
    body: Empty,
    answer: "any",
  },
];
