/** Secrets: what a caller may store, and what is shown of it. A value is taken, and never given back. */
import { z } from "zod";
import { EnvName } from "./variables.ts";
export { SECRETS_ATTACHED_MAX, SecretName, SecretNames } from "./secret-name.ts";
import { providerOfKey, secretProviderNames, secretProviders } from "./secret-providers.ts";

export const secretLimits = {
  perAccount: 100,
  /** Of one sandbox's own. */
  perSandbox: 16,
  hosts: 16,
  rules: 16,
  ruleParts: 16,
  /** Bytes of a value that goes into requests, and of one that goes to programs. */
  requestValueBytes: 8192,
  envValueBytes: 32_768,
} as const;

const HOST = /^(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** A host name, or `*.example.com` for all names below one. */
export const SecretHost = z
  .string()
  .min(1)
  .max(255)
  .transform((text) => text.toLowerCase().replace(/\.$/, ""))
  .refine((text) => HOST.test(text) && !/^[\d.]+$/.test(text), "a host name, or *.name; no port, path or address");

/** A header's name that the host may set: none that says where a request goes or how long it is. */
export const SecretHeader = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/, "a header's name")
  .transform((text) => text.toLowerCase())
  .refine((text) => !unfit.has(text) && !text.startsWith("x-rouse-"), "a header that a secret may not be put into");
const unfit: ReadonlySet<string> = new Set([
  ...["host", "connection", "content-length", "content-encoding", "transfer-encoding", "te", "trailer", "upgrade"],
  ...["keep-alive", "proxy-authorization", "proxy-connection", "expect"],
]);

const Format = z
  .string()
  .max(256)
  .regex(/^[\x20-\x7e]*$/, "printable ASCII")
  .refine((text) => text.split("{value}").length === 2, "holds {value}, once");

const Method = z
  .string()
  .regex(/^[A-Za-z]{1,16}$/, "a method, such as GET")
  .transform((text) => text.toUpperCase());
const Path = z
  .string()
  .max(512)
  .regex(/^\/[\x21-\x7e]*$/, "a path pattern, such as /v1/* or /v1/**, in printable ASCII");

/** Which requests get a secret: every part that is given must fit. `*` is anything within a segment, `**` anything. */
export const SecretRule = z
  .strictObject({
    methods: z.array(Method).min(1).max(secretLimits.ruleParts).optional(),
    paths: z.array(Path).min(1).max(secretLimits.ruleParts).optional(),
  })
  .refine(({ methods, paths }) => methods !== undefined || paths !== undefined, "methods, paths, or both")
  .meta({ id: "SecretRule" });
export type SecretRule = z.infer<typeof SecretRule>;

export const secretModes = ["broker", "placeholder", "env"] as const;
/**
 * `broker`: the host puts it into a header of requests to `hosts`; the machine never has it. `placeholder`: programs
 * have a random word instead, which the host replaces in requests to `hosts`. `env`: programs have it as a variable.
 */
export const SecretMode = z.enum(secretModes);
export type SecretMode = z.infer<typeof SecretMode>;

/** `PUT .../secrets/{name}`: all of a secret; what is not given has its default, whatever it was before. */
export const PutSecret = z
  .strictObject({
    /** Printable ASCII, 8 KiB at most; of mode `env` any text without NUL, 32 KiB at most. */
    value: z.string().min(1),
    /** `broker` unless given; needs `hosts` or `provider`. */
    mode: SecretMode.optional(),
    /** Fills in `hosts`, `header`, `format` and `envName`; what is given wins. */
    provider: z.enum(secretProviderNames).optional(),
    hosts: z.array(SecretHost).min(1).max(secretLimits.hosts).optional(),
    /** Of mode `broker`: the header that is set, in place of the machine's own; `authorization` unless given. */
    header: SecretHeader.optional(),
    /** Of mode `broker`: what it holds; `Bearer {value}` unless given. */
    format: Format.optional(),
    /** Requests to `hosts` that fit none of them are refused; all get it unless given. */
    rules: z.array(SecretRule).min(1).max(secretLimits.rules).optional(),
    /**
     * The variable: the name in upper case unless given. Of mode `broker` there is one only where it is given, or the
     * provider has one; it holds no key, for SDKs that insist on one.
     */
    envName: EnvName.optional(),
  })
  .superRefine((input, context) => {
    const issue = (path: string, message: string) => context.addIssue({ code: "custom", path: [path], message });
    const mode = input.mode ?? "broker";
    const bytes = new TextEncoder().encode(input.value).length;
    const max = mode === "env" ? secretLimits.envValueBytes : secretLimits.requestValueBytes;
    if (bytes > max) issue("value", `at most ${max} bytes`);
    if (mode === "env") {
      if (input.value.includes("\0")) issue("value", "has no NUL");
      if (!input.value.isWellFormed()) issue("value", "is well-formed Unicode");
      for (const field of ["hosts", "header", "format", "rules"] as const)
        if (input[field] !== undefined) issue(field, "is not for mode env, which gives the value to programs");
    } else {
      if (!/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(input.value))
        issue("value", "printable ASCII, without white space at its ends");
      if (input.hosts === undefined && input.provider === undefined)
        issue("hosts", `mode ${mode} needs the host names that get it, or a provider; mode env has none`);
    }
    if (mode === "placeholder")
      for (const field of ["header", "format"] as const)
        if (input[field] !== undefined) issue(field, "is for mode broker alone");
    const owner = input.provider === undefined ? null : providerOfKey(input.value);
    if (owner !== null && owner !== input.provider) issue("value", `begins like a key of ${owner}`);
  })
  .meta({ id: "PutSecret" });
export type PutSecret = z.infer<typeof PutSecret>;

/** What is kept of a secret beside its value. */
export interface SecretSettings {
  readonly mode: SecretMode;
  readonly hosts: readonly string[];
  readonly header: string | null;
  readonly format: string | null;
  readonly rules: readonly SecretRule[];
  readonly envName: string | null;
}

/** What an input means, its defaults filled in. Pure. */
export function settingsOf(name: string, input: Omit<PutSecret, "value">): SecretSettings {
  const provider = input.provider === undefined ? null : secretProviders[input.provider];
  const mode = input.mode ?? "broker";
  const own = name.replaceAll("-", "_").toUpperCase();
  const envName = input.envName ?? provider?.envName ?? (mode === "broker" ? null : own);
  if (mode === "env") return { mode, hosts: [], header: null, format: null, rules: [], envName };
  return {
    mode,
    hosts: [...new Set(input.hosts ?? provider?.hosts)],
    header: mode === "broker" ? (input.header ?? provider?.header ?? "authorization") : null,
    format: mode === "broker" ? (input.format ?? provider?.format ?? "Bearer {value}") : null,
    rules: input.rules ?? [],
    envName,
  };
}

const Time = z.iso.datetime();

const shown = {
  name: z.string(),
  kind: z.literal("secret"),
  /** The sandbox that it is of; null: it is the account's. */
  sandboxId: z.string().nullable(),
  mode: SecretMode,
  hosts: z.array(z.string()),
  header: z.string().nullable(),
  format: z.string().nullable(),
  rules: z.array(z.object({ methods: z.array(z.string()).optional(), paths: z.array(z.string()).optional() })),
  envName: z.string().nullable(),
  /** Of mode `placeholder`: what programs have in its place; the same over all versions. */
  placeholder: z.string().nullable(),
  /** Raised by each new value. */
  version: z.int(),
  valueBytes: z.int(),
  createdAt: Time,
  updatedAt: Time,
  /** When a host last put it into a request; of mode `env` that is not known. */
  lastUsedAt: Time.nullable(),
};
export const Secret = z.object(shown).meta({ id: "Secret" });
export type Secret = z.infer<typeof Secret>;

/** After a change. */
const change = {
  /** Whether every running sandbox that has it goes by the change now; others do at their wake. */
  enforced: z.boolean(),
  replayed: z.boolean().optional(),
};
export const StoredSecret = z.object({ ...shown, ...change }).meta({ id: "StoredSecret" });
export type StoredSecret = z.infer<typeof StoredSecret>;

export const DeletedSecret = z
  .object({ name: z.string(), sandboxId: z.string().nullable(), deleted: z.literal(true), ...change })
  .meta({ id: "DeletedSecret" });
export type DeletedSecret = z.infer<typeof DeletedSecret>;

export const SecretList = z.object({ data: z.array(Secret) }).meta({ id: "SecretList" });
export type SecretList = z.infer<typeof SecretList>;
