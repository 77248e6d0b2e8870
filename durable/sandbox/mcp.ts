/**
 * MCP servers of a sandbox. Its object keeps which there are, and tells the machine of them with what it starts with;
 * whoever talks to them is let in by a share link, whose token is signed anew whenever it is shown.
 */
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import { mcpLimits } from "../../sdk/contract/mcp.ts";
import { SECRETS_ATTACHED_MAX } from "../../sdk/contract/secret-name.ts";
import { sha256Hex } from "../hash.ts";
import { namedUrl } from "../named-url.ts";
import { refuse, type Change, type McpDeed, type McpShown, type Result } from "./api.ts";
import type { Answers } from "./answers.ts";
import { urlParts, type Engine } from "./engine.ts";
import { isLive } from "./lifecycle.ts";
import type { Links } from "./links.ts";
import { envNamesOf, mergedServers, type McpKept } from "./mcp-settings.ts";
import type { SandboxRecord } from "./record.ts";
import { withNews } from "./way-out.ts";

/** What is needed of the sandbox's object. */
type Around = readonly [env: Env, engine: Engine, links: Links, answers: Answers];

/** A machine that has the gateway, its copies too, is told that there is nothing once it is to have none. */
const nothing = { onBoot: null, onWake: null, services: [] };

type Answer = Result<{ readonly gateway: McpShown | null }>;

export async function mcpGateway(around: Around, deed: McpDeed, change: Change): Promise<Answer> {
  const [, , , answers] = around;
  const done =
    deed.kind === "look"
      ? answers.find(change.id)
      : // The answer is kept, and must not hold the token.
        await answers.once<Result<object>>(change, (record) =>
          deed.kind === "start" ? start(around, record, deed) : stop(around, record),
        );
  if (!done.ok) return done;
  const found = answers.find(change.id);
  return found.ok ? { ok: true, gateway: await shown(around, found.record) } : found;
}

async function start(
  [, engine, links]: Around,
  given: SandboxRecord,
  deed: McpDeed & { kind: "start" },
): Promise<Result<object>> {
  const before = given.mcp;
  const { replace, secrets } = deed;
  const port = deed.port ?? (replace ? undefined : before?.port) ?? mcpLimits.port;
  if (port === AGENT_PORT) return refuse("invalid_port", `Port ${port} is reserved.`, { port });
  const isSame = before !== null && !replace && before.port === port && links.isLive(before.linkId);
  // Its token is made before anything is stored: from there on all of it is one turn.
  const link = isSame ? null : await links.plan(given, port, "MCP servers");
  const tokenSha256 = link ? await sha256Hex(link.token) : (before?.tokenSha256 ?? "");
  const record = engine.record();
  if (record?.id !== given.id) return refuse("sandbox_gone", "The sandbox was deleted.");
  if (JSON.stringify(record.mcp) !== JSON.stringify(before))
    return refuse("conflict", "The servers were changed by somebody else at the same time.");
  const servers = mergedServers(before?.servers ?? [], deed.servers, replace);
  if ("code" in servers) return { ok: false, failure: servers };
  const attached = [...new Set([...record.secrets, ...secrets])];
  if (attached.length > SECRETS_ATTACHED_MAX)
    return refuse("quota_exceeded", `A sandbox has at most ${SECRETS_ATTACHED_MAX} secrets of the account.`, {
      max: SECRETS_ATTACHED_MAX,
    });
  const refused = link && links.add(record, link);
  if (refused) return refused;
  const mcp: McpKept = {
    ...{ port, servers, tokenSha256, version: (before?.version ?? 0) + 1 },
    linkId: link?.id ?? before?.linkId ?? "",
    linkExpiresAt: link?.expiresAt ?? before?.linkExpiresAt ?? 0,
  };
  const isNews = attached.length > record.secrets.length;
  const boot = record.boot ?? nothing;
  const changed = { ...record, mcp, boot, secrets: attached, configurePending: pending(record) };
  engine.save(isNews ? withNews(changed) : changed);
  // The old token ends in the same turn.
  const ended = link && before ? links.revoke(record, before.linkId) : null;
  await engine.configure();
  await ended;
  return { ok: true };
}

async function stop([, engine, links]: Around, record: SandboxRecord): Promise<Result<object>> {
  const { mcp, boot } = record;
  if (!mcp) return { ok: true };
  engine.save({ ...record, mcp: null, boot: boot ?? nothing, configurePending: pending(record) });
  const ended = links.revoke(record, mcp.linkId);
  await engine.configure();
  await ended;
  return { ok: true };
}

function pending({ configurePending, life }: SandboxRecord): boolean {
  return configurePending || isLive(life.state);
}

async function shown([env, , links]: Around, record: SandboxRecord): Promise<McpShown | null> {
  const { mcp, life, network } = record;
  if (!mcp) return null;
  const { port, version, linkId, linkExpiresAt } = mcp;
  return {
    ...{ sandboxId: record.id, state: life.state, port, version },
    url: namedUrl(urlParts(env), record, port),
    token: links.isLive(linkId) ? await links.tokenOf(record.id, linkId, linkExpiresAt) : null,
    tokenExpiresAt: linkExpiresAt,
    isClosed: !network.internet,
    servers: mcp.servers.map((server) => ({
      ...{ name: server.name, id: server.id, secrets: server.secrets },
      envNames: envNamesOf(server),
    })),
  };
}
