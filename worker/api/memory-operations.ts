/** Operations on the memory of a sandbox and of stores, and on stores. */
import { z } from "zod";
import {
  AddedMemory,
  AddMemory,
  ForgetMemory,
  ForgottenMemory,
  ImportedMemory,
  MemoryEntry,
  MemoryGetQuery,
  MemoryHits,
  MemoryLine,
  MemoryList,
  MemoryListQuery,
  MemoryUsage,
  SearchMemory,
  UpdateMemory,
} from "../../sdk/contract/memory.ts";
import {
  DeletedStore,
  DeleteStoreQuery,
  GrantStore,
  PutStore,
  RevokeStore,
  Store,
  StoreList,
} from "../../sdk/contract/store.ts";
import type { Operation } from "./operation.ts";

type Facts = Omit<Operation, "work">;

const NoQuery = z.strictObject({});
const S = "/v1/stores";

/** @param m where it is. @param of whose, for the summaries */
function memoryAt(m: string, of: string): readonly Facts[] {
  return [
    {
      method: "POST",
      path: m,
      summary: `Add one entry or up to 100 to the memory of ${of}, all or none.`,
      query: NoQuery,
      body: AddMemory,
      answer: AddedMemory,
    },
    {
      method: "GET",
      path: m,
      summary: `List the memory of ${of}, the newest first unless order says oldest.`,
      query: MemoryListQuery,
      answer: MemoryList,
    },
    {
      method: "POST",
      path: `${m}:search`,
      summary: "Search by words, by an embedding, or by both.",
      query: NoQuery,
      body: SearchMemory,
      answer: MemoryHits,
    },
    {
      method: "POST",
      path: `${m}:forget`,
      summary: "Forget some by id, or all that a filter says, for good.",
      query: NoQuery,
      body: ForgetMemory,
      answer: ForgottenMemory,
    },
    { method: "GET", path: `${m}:usage`, summary: "How much is held.", query: NoQuery, answer: MemoryUsage },
    {
      method: "GET",
      path: `${m}:export`,
      summary: "All of it, the oldest first, with embeddings, as lines of JSON.",
      query: NoQuery,
      answer: "bytes",
      lines: MemoryLine,
    },
    {
      method: "POST",
      path: `${m}:import`,
      summary: "Add the lines of an export, each once.",
      query: NoQuery,
      body: "bytes",
      answer: ImportedMemory,
    },
    {
      method: "POST",
      path: `${m}/mcp`,
      summary: "The memory as an MCP server (Streamable HTTP, without sessions).",
      query: NoQuery,
      body: "bytes",
      answer: "any",
    },
    {
      method: "GET",
      path: `${m}/{entry}`,
      summary: "Read an entry.",
      query: MemoryGetQuery,
      answer: MemoryEntry,
    },
    {
      method: "POST",
      path: `${m}/{entry}:update`,
      summary: "Change an entry, with ifVersion only where it has that version.",
      query: NoQuery,
      body: UpdateMemory,
      answer: MemoryEntry,
    },
    {
      method: "DELETE",
      path: `${m}/{entry}`,
      summary: "Forget an entry for good.",
      query: NoQuery,
      answer: ForgottenMemory,
    },
  ];
}

export const memory = memoryAt("/v1/sandboxes/{id}/memory", "a sandbox");
export const sharedMemory = memoryAt(`${S}/{store}/memory`, "a store");

export const stores: readonly Facts[] = [
  { method: "GET", path: S, summary: "List stores that agents share, by name.", query: NoQuery, answer: StoreList },
  {
    method: "PUT",
    path: `${S}/{store}`,
    summary: "Make a store that agents share, or change what it has and to whom it is open.",
    query: NoQuery,
    body: PutStore,
    answer: Store,
  },
  { method: "GET", path: `${S}/{store}`, summary: "Read a store.", query: NoQuery, answer: Store },
  {
    method: "POST",
    path: `${S}/{store}:grant`,
    summary: "Open a store to the sandbox of a name, or with * to all, for reading or writing.",
    query: NoQuery,
    body: GrantStore,
    answer: Store,
  },
  {
    method: "POST",
    path: `${S}/{store}:revoke`,
    summary: "Close a store to an agent; counts at once.",
    query: NoQuery,
    body: RevokeStore,
    answer: Store,
  },
  {
    method: "DELETE",
    path: `${S}/{store}`,
    summary: "Delete a store with all that is in it.",
    query: DeleteStoreQuery,
    answer: DeletedStore,
  },
];
