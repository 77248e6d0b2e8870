import type { TestProject } from "vitest/node";
import { TestResolver } from "../support/test-resolver.ts";
import { FakeHost } from "../support/fake-host.ts";
import { roots } from "./secrets.ts";

declare module "vitest" {
  interface ProvidedContext {
    hostUrl: string;
    dnsUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await import("../../worker/dashboard/build.ts");
  const host = new FakeHost(roots);
  project.provide("hostUrl", await host.listen());
  const resolver = await TestResolver.start();
  project.provide("dnsUrl", resolver.url);
  return async () => {
    await Promise.all([host.close(), resolver.close()]);
  };
}
