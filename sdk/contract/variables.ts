/** Environment variables, wherever a body has some. */
import { z } from "zod";

export const envLimits = {
  envMax: 32,
  /** Bytes of all variable names and values together. */
  envBytesMax: 32_768,
} as const;

export const EnvName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "a variable name is a letter or _, then letters, digits, _");
export const EnvValue = z.string().refine((value) => !value.includes("\0"), "a value has no NUL");
export const Env = z
  .record(EnvName, EnvValue)
  .refine((env) => Object.keys(env).length <= envLimits.envMax, `at most ${envLimits.envMax} variables`)
  .refine(
    (env) => new TextEncoder().encode(Object.entries(env).flat().join("")).length <= envLimits.envBytesMax,
    `variables hold at most ${envLimits.envBytesMax} bytes together`,
  );
