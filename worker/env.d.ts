/** What wrangler.toml and the start-up give to the Worker. Keep in step with wrangler.toml. */
declare namespace Cloudflare {
  interface Env {
    SANDBOX: DurableObjectNamespace<never>;
    ACCOUNT: DurableObjectNamespace<never>;
    HOSTS: DurableObjectNamespace;
    /** Named URLs are `<scheme>://[<port>-]<label>.<domain>/`. */
    ROUSE_DOMAIN: string;
    ROUSE_SCHEME: string;
    /** `off` silences the request log. */
    ROUSE_LOG?: string;
    /** Rates as they changed (`RatesHistory`), JSON; the default ones unless set. */
    ROUSE_RATES?: string;
    /** Root of all signatures. Secret. */
    ROUSE_SECRET: string;
    /** Bearer between edge and hosts, both ways. Secret. */
    ROUSE_HOST_SECRET: string;
    /** The first API key of the default account. Secret. */
    ROUSE_BOOTSTRAP_KEY?: string;
  }
}

interface Env extends Cloudflare.Env {}
