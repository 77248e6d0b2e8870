/** Tools that let others in: opened ports, share links, webhooks. */
import { z } from "zod";
import { CreateHook, Hook, HookList, NewHook } from "../../sdk/contract/hook.ts";
import { CreateLink, Link, LinkList } from "../../sdk/contract/link.ts";
import { CreatePreview, Preview } from "../../sdk/contract/sandbox.ts";
import { WhichSandbox } from "./fields.ts";
import { at, tool, type Tool } from "./tool.ts";

const LinkFacts = Link.omit({ uses: true, replayed: true, token: true }).strip();
const HookFacts = Hook.pick({
  id: true,
  name: true,
  provider: true,
  port: true,
  path: true,
  mode: true,
  enabled: true,
  createdAt: true,
}).strip();

export const wayInTools: readonly Tool[] = [
  tool({
    name: "port_expose",
    title: "Open a port",
    description:
      "Get a URL for a server that listens on a port of the sandbox. private: the URL needs the token in urlWithToken, for a day " +
      "unless ttlSeconds is given. public: anybody may. A request wakes the sandbox.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      port: CreatePreview.shape.port.describe("Port that the server listens on"),
      visibility: CreatePreview.shape.visibility.describe("private unless given"),
      ttlSeconds: CreatePreview.shape.ttlSeconds.describe("Seconds until the token ends, 60 to 604800"),
    }),
    output: Preview.pick({ port: true, visibility: true, url: true, urlWithToken: true, tokenExpiresAt: true }).strip(),
    readOnly: false,
    open: true,
    act: (api, { sandbox, ...input }) => api.json(Preview, "POST", at(sandbox, "/previews"), input),
  }),
  tool({
    name: "link_create",
    title: "Make a share link",
    description:
      "Make a link to one port, or to what is below one path of it, for people without a key. It can be revoked.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      name: CreateLink.shape.name.describe("Whom it is for"),
      port: CreateLink.shape.port.describe("Port; 8080 unless given"),
      path: CreateLink.shape.path.describe("It opens this path and what is below it; everything unless given"),
      ttlSeconds: CreateLink.shape.ttlSeconds.describe("Seconds until it ends; a week unless given"),
      wake: CreateLink.shape.wake.describe("Whether it may wake the sandbox; it may unless given"),
    }),
    output: LinkFacts,
    readOnly: false,
    open: true,
    act: (api, { sandbox, ...input }) => api.json(Link, "POST", at(sandbox, "/links"), input),
  }),
  tool({
    name: "link_list",
    title: "List share links",
    description:
      "Share links of a sandbox and whether they still open. Their tokens are shown only when they are made.",
    input: z.strictObject({ sandbox: WhichSandbox }),
    output: z.object({ links: z.array(LinkFacts) }),
    readOnly: true,
    async act(api, { sandbox }) {
      return { links: (await api.json(LinkList, "GET", at(sandbox, "/links"))).data };
    },
  }),
  tool({
    name: "hook_create",
    title: "Make a webhook",
    description:
      "Make a URL that takes webhooks while the sandbox sleeps; each is verified, stored, and delivered to a port. URL and secrets " +
      "are shown only now. For a provider whose secret comes from it (stripe, slack, discord), ask the person to make it: secrets " +
      "do not belong in a conversation.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      name: CreateHook.shape.name.describe("Unique in the sandbox"),
      provider: z
        .enum(["standard", "github", "telegram", "bearer", "none"])
        .describe("Who sends. standard: Standard Webhooks; none: whoever knows the URL"),
      port: CreateHook.shape.port.describe("Port of the program; 8080 unless given"),
      path: CreateHook.shape.path.describe("Path there; / unless given"),
      filters: CreateHook.shape.filters.describe("Event types that are delivered; all unless given"),
    }),
    output: NewHook.omit({ replayed: true }).strip(),
    readOnly: false,
    open: true,
    act: (api, { sandbox, ...input }) => api.json(NewHook, "POST", at(sandbox, "/hooks"), input),
  }),
  tool({
    name: "hook_list",
    title: "List webhooks",
    description: "Webhooks of a sandbox, without their URLs and secrets.",
    input: z.strictObject({ sandbox: WhichSandbox }),
    output: z.object({ hooks: z.array(HookFacts) }),
    readOnly: true,
    async act(api, { sandbox }) {
      return { hooks: (await api.json(HookList, "GET", at(sandbox, "/hooks"))).data };
    },
  }),
];
