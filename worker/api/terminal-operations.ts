/** Operations on terminals, tunnels and file watches. */
import type { Operation } from "./operation.ts";
import { z } from "zod";
import {
  CreateWatch,
  FileWatch,
  Process,
  ResizeTerminal,
  TerminalQuery,
  WatchEvents,
  WatchLine,
  WatchQuery,
} from "../../sdk/contract/guest.ts";

const ID = "/v1/sandboxes/{id}";
const WATCH = `${ID}/files/watches/{watch}`;

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
    method: "GET",
    path: `${ID}/tunnel`,
    summary: "A WebSocket that carries TCP connections to ports of the sandbox.",
    answer: "any",
    socket: "connection",
  },
  {
    method: "POST",
    path: `${ID}/processes/{pid}:resize`,
    summary: "Resize the terminal of a process.",
    body: ResizeTerminal,
    answer: Process,
  },
  {
    method: "POST",
    path: `${ID}/files/watches`,
    summary: "Watch a file or folder.",
    body: CreateWatch,
    answer: FileWatch,
  },
  {
    method: "GET",
    path: `${ID}/files/watches`,
    summary: "List watches.",
    answer: z.object({ data: z.array(FileWatch) }),
  },
  { method: "DELETE", path: WATCH, summary: "Stop a watch.", answer: z.object({ stopped: z.literal(true) }) },
  {
    method: "GET",
    path: `${WATCH}/events`,
    summary: "Read or follow what a watch found. Never wakes the sandbox.",
    query: WatchQuery,
    answer: WatchEvents,
    lines: WatchLine,
    quiet: true,
  },
];
