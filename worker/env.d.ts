/** What wrangler.toml and the start-up give to the Worker. Keep in step with wrangler.toml. */
declare namespace Cloudflare {
  interface Env {
    SANDBOX: DurableObjectNamespace<never>;
    ACCOUNT: DurableObjectNamespace<never>;
    SNAPSHOTS: DurableObjectNamespace<never>;
    VOLUMES: DurableObjectNamespace<never>;
    HOSTS: DurableObjectNamespace;
    LOGIN: DurableObjectNamespace<never>;
    VAULT: DurableObjectNamespace<never>;
    INBOX: DurableObjectNamespace<never>;
    SCHEDULES: DurableObjectNamespace<never>;
    SOCKETS: DurableObjectNamespace<never>;
    OUTBOX: DurableObjectNamespace<never>;
    /** One object for each host name that is a domain of a sandbox, or is to be. */
    DOMAINS: DurableObjectNamespace<never>;
    CLAIMS: DurableObjectNamespace<never>;
    CHECKPOINTS: DurableObjectNamespace<never>;
    DRILLS: DurableObjectNamespace<never>;
    /** What sandboxes keep outside of their machines: keys, queues, which objects. */
    STATE: DurableObjectNamespace<never>;
    /** The SQL of sandboxes, and nothing else. */
    DATABASE: DurableObjectNamespace<never>;
    SECRETS: DurableObjectNamespace<never>;
    MEMORY: DurableObjectNamespace<never>;
    /** An index of memories' embeddings, for what is slow to compare one by one; metric cosine (docs/memory.md). */
    MEMORY_INDEX?: Vectorize;
    STORES: DurableObjectNamespace<never>;
    /** Where names are looked up: a resolver that speaks RFC 8484; https://cloudflare-dns.com/dns-query unless set. */
    ROUSE_DNS_URL?: string;
    /** What domains are to point to: a host name, or addresses with commas between; the sandbox's named host unless set. */
    ROUSE_DOMAIN_TARGET?: string;
    /** `any`: names that only one network knows, such as `shop.internal`, may be domains. For local use. */
    ROUSE_DOMAIN_NAMES?: string;
    /** `any`: certificates may be had for each named host, so that whoever asks learns which there are; else for public ones. */
    ROUSE_TLS_NAMED_HOSTS?: string;
    /** Host names of the API apart from `ROUSE_DOMAIN`, with commas between: no domains, and never looked up as such. */
    ROUSE_API_HOSTS?: string;
    /** Where events leave: a network that reaches public addresses alone. Without it, the platform's own (ADR 16). */
    EVENTS_OUT?: Fetcher;
    /** `any`: events may be sent to plain HTTP, any port and private addresses. For local use. */
    ROUSE_EVENT_TARGETS?: string;
    /** Blobs of vaults, unless `ROUSE_S3_ENDPOINT` names another store. */
    BLOBS: R2Bucket;
    /** In the place of `BLOBS` where the edge runs on a machine of one's own: a writable folder (ADR 18). */
    BLOBS_DISK?: Fetcher;
    /** Named URLs are `<scheme>://[<port>-]<label>.<domain>/`. */
    ROUSE_DOMAIN: string;
    ROUSE_SCHEME: string;
    /** On a machine of one's own: addresses of proxies, apart from those of this machine, that say who asks. */
    ROUSE_TRUSTED_PROXIES?: string;
    /** `off`: no dashboard, and sandboxes that are reached by path share the API's origin in browsers. */
    ROUSE_DASHBOARD?: string;
    /** `off` silences the request log. */
    ROUSE_LOG?: string;
    /** How long a heartbeat lets its host run machines, seconds; 40 unless set. */
    ROUSE_HOST_LEASE_SECONDS?: string;
    /** `open`: whoever approves a login may begin a trial account. */
    ROUSE_TRIALS?: string;
    /** Credit of a new account, and of a trial account, microdollars. */
    ROUSE_STARTING_CREDIT?: string;
    ROUSE_TRIAL_CREDIT?: string;
    /** Calls of one key: `<per second>:<burst>`; 50:200 unless set. */
    ROUSE_RATE_LIMIT?: string;
    /** Rates as they changed (`RatesHistory`), JSON; the default ones unless set. */
    ROUSE_RATES?: string;
    /** An S3 for the blobs of vaults, in the place of `BLOBS`: all five, or none. */
    ROUSE_S3_ENDPOINT?: string;
    ROUSE_S3_BUCKET?: string;
    ROUSE_S3_REGION?: string;
    ROUSE_S3_KEY_ID?: string;
    /** Secret. */
    ROUSE_S3_SECRET?: string;
    /** Root of all signatures. Secret. */
    ROUSE_SECRET: string;
    /** Root of the secrets between edge and hosts (`sdk/contract/host-secrets.ts`). Secret. */
    ROUSE_HOST_SECRET: string;
    /** The first API key of the default account. Secret. */
    ROUSE_BOOTSTRAP_KEY?: string;
  }
}

interface Env extends Cloudflare.Env {}
