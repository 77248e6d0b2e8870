/** Operations on held sockets. */
import { z } from "zod";
import { ClosedSocket, HeldSocketList } from "../../sdk/contract/socket.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});
const SOCKETS = "/v1/sandboxes/{id}/sockets";

export const sockets: readonly Omit<Operation, "work">[] = [
  {
    method: "GET",
    path: SOCKETS,
    summary: "List the held sockets that are open, the oldest first. It does not wake the sandbox.",
    query: NoQuery,
    answer: HeldSocketList,
  },
  {
    method: "DELETE",
    path: `${SOCKETS}/{socket}`,
    summary: "Close a held socket, for its client and for the program.",
    query: NoQuery,
    answer: ClosedSocket,
  },
];
