import type { TestProject } from "vitest/node";
import { FakeHost } from "../support/fake-host.ts";
import { roots } from "./secrets.ts";

declare module "vitest" {
  interface ProvidedContext {
    hostUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const host = new FakeHost(roots);
  project.provide("hostUrl", await host.listen());
  return () => host.close();
}
