/** What an agent is made of: checked, and worked out from its preset, before anything is made. Pure. */
import { AgentPreset, deliveryOf, imageOf, providersOf, servicesOf, sizeOf } from "../contract/agent-preset.ts";
import { hintOf, statusOf } from "../contract/errors.ts";
import type { CreateHook } from "../contract/hook.ts";
import { agentPresets, presetOf } from "../contract/presets/index.ts";
import type { CreateSandbox } from "../contract/sandbox.ts";
import { CreateSandbox as CreateSchema } from "../contract/sandbox.ts";
import { PutSecret } from "../contract/secret.ts";
import { secretProviderNames, type SecretProviderName } from "../contract/secret-providers.ts";
import { InvalidRequestError } from "./errors.ts";

/** Labels of a sandbox that is an agent: its preset, and, until it is whole, that it is being set up. */
export const AGENT_LABEL = "rouse/agent";
export const SETUP_LABEL = "rouse/agent-setup";
/** Its hook. */
export const AGENT_HOOK = "agent";

export interface CreateAgent extends Pick<
  CreateSandbox,
  "vcpu" | "memoryMiB" | "diskMiB" | "idlePauseSeconds" | "network" | "env" | "labels" | "volumes" | "access"
> {
  name: string;
  /** A preset that comes with it: `openclaw`, `hermes`, `paperclip`, `opensre`. */
  runtime?: string | undefined;
  /** A preset of one's own, instead. */
  preset?: AgentPreset | undefined;
  /** Keys of model providers by the provider's name. The host puts them into requests; the machine never has them. */
  keys?: Partial<Record<SecretProviderName, string>> | Record<string, string> | undefined;
  /** Model, as the runtime writes it; that of the first key's provider unless given. */
  model?: string | undefined;
}

export interface AgentPlan {
  readonly preset: AgentPreset;
  readonly sandbox: CreateSandbox & { readonly name: string };
  readonly secrets: readonly { readonly name: SecretProviderName; readonly input: PutSecret }[];
  readonly hook: CreateHook | null;
}

/**
 * @throws InvalidRequestError `unknown_preset`, `wrong_provider`, or `invalid_request` with every fault in
 *   `details.issues`; values of keys are in none of them
 */
export function planAgent(input: CreateAgent): AgentPlan {
  const { name, runtime, preset: own, keys = {}, model, ...rest } = input;
  const preset = presetIn(runtime, own);
  const given = Object.keys(keys);
  const taken = providersOf(preset);
  const foreign = given.filter((provider) => !taken.some((one) => one === provider));
  if (foreign.length > 0)
    throw refusal("wrong_provider", `${preset.title} takes no key of ${foreign.join(", ")}.`, {
      providers: taken,
      known: secretProviderNames,
    });
  const secrets = taken
    .filter((provider) => given.includes(provider))
    .map((provider) => ({ name: provider, input: { value: keys[provider as keyof typeof keys] ?? "", provider } }));
  const wanted = model ?? secrets.map((one) => preset.providers[one.name]?.model).find((one) => one !== undefined);
  const size = sizeOf(preset);
  const onBoot = onBootOf(preset, wanted);
  const sandbox = {
    ...{ name, image: imageOf(preset), ...size, idlePauseSeconds: preset.idlePauseSeconds },
    ...(preset.network === undefined ? {} : { network: preset.network }),
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
    labels: { ...rest.labels, [AGENT_LABEL]: preset.id, [SETUP_LABEL]: "pending" },
    services: servicesOf(preset),
    ...(onBoot === null ? {} : { onBoot }),
  };
  const issues: { path: string; message: string }[] = [];
  const checked = CreateSchema.safeParse(sandbox);
  for (const issue of checked.error?.issues ?? [])
    issues.push({ path: issue.path.map(String).join("."), message: issue.message });
  for (const { name: provider, input: secret } of secrets)
    for (const issue of PutSecret.safeParse(secret).error?.issues ?? [])
      issues.push({ path: `keys.${provider}`, message: issue.message });
  if ((rest.memoryMiB ?? size.memoryMiB) < preset.minMemoryMiB)
    issues.push({ path: "memoryMiB", message: `${preset.title} needs at least ${preset.minMemoryMiB}` });
  if (model !== undefined && (preset.modelEnv === undefined || !/^[\x21-\x7e]{1,128}$/.test(model)))
    issues.push({
      path: "model",
      message: preset.modelEnv ? "printable ASCII without spaces" : "can't be chosen here",
    });
  if (issues.length > 0 || !checked.success) {
    const text = issues.map((issue) => `${issue.path}: ${issue.message}`).join("; ");
    throw refusal("invalid_request", `The agent is not valid: ${text}.`, { issues });
  }
  const delivery = deliveryOf(preset);
  return {
    ...{ preset, sandbox: { ...sandbox, name }, secrets },
    hook: delivery === null ? null : { name: AGENT_HOOK, provider: "standard", ...delivery },
  };
}

function presetIn(runtime: string | undefined, own: AgentPreset | undefined): AgentPreset {
  if ((runtime === undefined) === (own === undefined))
    throw refusal("invalid_request", "An agent has a runtime, or a preset of its own: one of them.", {
      issues: [{ path: "runtime", message: "exactly one of runtime and preset" }],
    });
  if (runtime !== undefined) {
    const found = presetOf(runtime);
    if (found) return found;
    const presets = agentPresets.map(({ id }) => id);
    throw refusal("unknown_preset", `There is no preset ${JSON.stringify(runtime)}; there are ${presets.join(", ")}.`, {
      presets,
    });
  }
  const parsed = AgentPreset.safeParse(own);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(({ path, message }) => ({ path: path.map(String).join("."), message }));
  const text = issues.map((issue) => `${issue.path}: ${issue.message}`).join("; ");
  throw refusal("invalid_request", `The preset is not valid: ${text}.`, { issues });
}

function onBootOf(preset: AgentPreset, model: string | undefined): CreateSandbox["onBoot"] | null {
  const command = preset.identity ?? preset.install;
  if (command === undefined) return null;
  const env = preset.modelEnv !== undefined && model !== undefined ? { [preset.modelEnv]: model } : undefined;
  const user = preset.user === undefined ? {} : { user: preset.user };
  return { ...command, ...user, ...(env === undefined ? {} : { env }) };
}

function refusal(
  code: "unknown_preset" | "wrong_provider" | "invalid_request",
  message: string,
  details: Record<string, unknown>,
): InvalidRequestError {
  return new InvalidRequestError({ code, message, details, hint: hintOf(code), status: statusOf(code) });
}
