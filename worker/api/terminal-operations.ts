/** Operations on terminals: WebSockets, and what a process with one takes beside them. */
import type { Operation } from "./operation.ts";
import { ResizeTerminal, TerminalQuery } from "../../sdk/contract/guest.ts";

const ID = "/v1/sandboxes/{id}";

/** Of its guest agent. */
export const terminals: readonly Omit<Operation, "work">[] = [
  {
    method: "GET",
    path: `${ID}/terminal`,
    summary: "A WebSocket to a terminal, a new one or one that is there.",
    query: TerminalQuery,
    answer: "any",
    socket: "messages",
  },
  {
    method: "POST",
    path: `${ID}/processes/{pid}:resize`,
    summary: "Resize the terminal of a process.",
    body: ResizeTerminal,
    answer: "any",
  },
];
