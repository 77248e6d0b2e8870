/** What a secret may be, and what a run has of several. */
import { describe, expect, it } from "vitest";
import { given, type SecretRecord } from "../../durable/secrets/record.ts";
import { rulesOf } from "../../durable/sandbox/way-out.ts";
import { providerOfKey, secretProviderNames, secretProviders } from "../../sdk/contract/secret-providers.ts";
import { PutSecret, SecretHeader, SecretName, settingsOf } from "../../sdk/contract/secret.ts";

const record = (name: string, rest: Partial<SecretRecord>): SecretRecord => ({
  ...{ name, mode: "env", hosts: [], header: null, format: null, rules: [], envName: name, placeholder: null },
  ...{ version: 1, valueBytes: 1, createdAt: 0, updatedAt: 0 },
  ...rest,
});
const opened = (name: string, value: string, rest: Partial<SecretRecord> = {}) => ({
  record: record(name, rest),
  value,
});

describe("what a run has", () => {
  it("of one name a sandbox's own; of one variable that, and then the account's that is named last", () => {
    const one = opened("A", "account-a");
    const two = opened("B", "account-b", { envName: "SHARED" });
    const three = opened("C", "account-c", { envName: "SHARED" });
    expect(given([], [one, two, three]).env).toEqual({ A: "account-a", SHARED: "account-c" });
    expect(given([], [one, three, two]).env).toEqual({ A: "account-a", SHARED: "account-b" });
    expect(given([opened("A", "own-a", { envName: "SHARED" })], [one, two]).env).toEqual({ SHARED: "own-a" });
  });

  it("of mode env no host is told apart from the variable, of others the guest has no value", () => {
    const broker = opened("K", "value-k", {
      mode: "broker",
      hosts: ["a.b"],
      header: "x",
      format: "{value}",
      envName: null,
    });
    const placed = opened("P", "value-p", { mode: "placeholder", hosts: ["a.b"], placeholder: "rsec_x" });
    const run = given([], [broker, placed, opened("E", "value-e")]);
    expect(run.env).toEqual({ P: "rsec_x", E: "value-e" });
    expect(run.brokered.map(({ name }) => name)).toEqual(["P", "K"]);
    expect(run.brokered[1]).not.toHaveProperty("rules");
    expect(given([], [opened("K", "v", { mode: "broker", hosts: ["a.b"], envName: "KEY" })]).env).toEqual({
      KEY: "rouse-brokered",
    });
  });
});

describe("a secret", () => {
  it("has what its provider has, unless it says otherwise", () => {
    for (const provider of secretProviderNames) {
      const { hosts, header, format, envName } = secretProviders[provider];
      const settings = settingsOf("k", { provider });
      expect(settings).toEqual({ mode: "broker", hosts, header, format, rules: [], envName });
      expect(settings.format?.split("{value}")).toHaveLength(2);
      expect(PutSecret.safeParse({ value: `${secretProviders[provider].prefixes[0]}x`, provider }).success).toBe(true);
    }
    expect(
      settingsOf("my-key", { provider: "openai", hosts: ["proxy.example.com"], header: "x-k", envName: "K" }),
    ).toEqual({
      ...{
        mode: "broker",
        hosts: ["proxy.example.com"],
        header: "x-k",
        format: "Bearer {value}",
        rules: [],
        envName: "K",
      },
    });
    expect(settingsOf("my-key", { mode: "env", provider: "github" })).toMatchObject({
      hosts: [],
      envName: "GITHUB_TOKEN",
    });
    expect(settingsOf("my-key", { mode: "placeholder", hosts: ["a.b"] })).toMatchObject({
      header: null,
      envName: "MY_KEY",
    });
    expect(settingsOf("my-key", { hosts: ["a.b"] })).toMatchObject({ header: "authorization", envName: null });
  });

  it("tells whose key it is by the longest beginning", () => {
    expect(["sk-ant-1", "sk-or-v1-1", "sk-proj-1", "AIzaX", "github_pat_1", "hello"].map(providerOfKey)).toEqual([
      ...["anthropic", "openrouter", "openai", "gemini", "github", null],
    ]);
  });

  it("is not put into headers that say where a request goes, or into ours", () => {
    for (const header of [
      "Host",
      "content-length",
      "Transfer-Encoding",
      "proxy-authorization",
      "x-rouse-egress",
      "a b",
      "a:",
      "",
    ])
      expect([header, SecretHeader.safeParse(header).success]).toEqual([header, false]);
    expect(SecretHeader.parse("X-Api-Key")).toBe("x-api-key");
  });

  it("is called by names that fit into a path and a variable", () => {
    for (const name of ["anthropic", "OPENAI_API_KEY", "my-key", "_x"])
      expect(SecretName.safeParse(name).success).toBe(true);
    for (const name of ["", "1a", "-a", "a.b", "a/b", "ä", "a".repeat(64)])
      expect(SecretName.safeParse(name).success).toBe(false);
  });
});

it("rules have each target once, and no empty lists", () => {
  expect(rulesOf({})).toEqual({ internet: true });
  expect(rulesOf({ internet: false, allow: [], deny: ["a", "a", "b"] })).toEqual({ internet: false, deny: ["a", "b"] });
});
