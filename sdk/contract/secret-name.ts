/** How a secret is called, and the account's secrets that a sandbox has. */
import { z } from "zod";

/** Such as `anthropic` or `OPENAI_API_KEY`. */
export const SecretName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_-]{0,62}$/, "1-63 of A-Z a-z 0-9 _ -, first no digit and no -");

/** Account secrets of one sandbox, at most. */
export const SECRETS_ATTACHED_MAX = 16;

/** The account's secrets that a sandbox has, besides its own. */
export const SecretNames = z
  .array(SecretName)
  .max(SECRETS_ATTACHED_MAX)
  .refine((names) => new Set(names).size === names.length, "each name once");
