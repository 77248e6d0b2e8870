/** What the dashboard's pages and the edge say to each other beside the API: signing in and out. */
import { z } from "zod";
import { KeyAccess } from "./account.ts";

/** `POST /dashboard/session`. The answer sets the cookie; the key is not kept. */
export const OpenSession = z.strictObject({ apiKey: z.string().min(1).max(256) }).meta({ id: "OpenSession" });

/** `POST /dashboard/session/device`, with the `device_code` of `POST /oauth/device_authorization`. */
export const DeviceSession = z.strictObject({ deviceCode: z.string().min(1).max(256) }).meta({ id: "DeviceSession" });

/** Its answer while nobody has approved; the words of RFC 8628. */
export const DevicePending = z.object({
  state: z.enum(["authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_grant"]),
});

/** The answer of signing in; that of `GET /dashboard/session`, where somebody is signed in, and null else. */
export const DashboardSession = z
  .object({
    account: z.string(),
    /** The key that the browser acts as. */
    keyId: z.string(),
    keyName: z.string(),
    access: KeyAccess,
    namePrefix: z.string().nullable(),
    expiresAt: z.iso.datetime(),
    /** Sent as `x-rouse-csrf` with each change. */
    csrf: z.string(),
    /** Below which sandboxes have their host names. */
    domain: z.string(),
    /** The first key of a trial account that was just begun; shown once. */
    newKey: z.string().optional(),
  })
  .meta({ id: "DashboardSession" });
export type DashboardSession = z.infer<typeof DashboardSession>;
