/** Who is signed in, for the views. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { DashboardSession } from "../../sdk/contract/dashboard.ts";

export const SessionContext = createContext<DashboardSession | null>(null);

/** @throws Error outside of a view that is shown to somebody signed in */
export function useSession(): DashboardSession {
  const session = useContext(SessionContext);
  if (!session) throw new Error("nobody is signed in");
  return session;
}

/** Whether the session may change sandboxes. */
export const mayUse = ({ access }: DashboardSession): boolean => access === "full" || access === "sandboxes";
export const mayAdminister = ({ access, namePrefix }: DashboardSession): boolean =>
  access === "full" && namePrefix === null;
export const maySeeMoney = ({ access, namePrefix }: DashboardSession): boolean =>
  access !== "sandboxes" && namePrefix === null;
/** Hosts are the operator's, whose account is the default one. */
export const mayOperate = (session: DashboardSession): boolean =>
  mayAdminister(session) && session.account === "default";
