/** The people of the account. */
import { Member as MemberSchema } from "../contract/account.ts";
import type { CreateMember, Member } from "../contract/account.ts";
import { z } from "zod";
import { parseAnswer } from "./remote.ts";
import type { RequestOptions, Transport } from "./transport.ts";

const MemberList = z.object({ data: z.array(MemberSchema) });

/** People who hold keys. All of this needs a key with access `full`. */
export class Members {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Add a person. Their keys come from {@link Keys.create} with `memberId`, and may do what the role may. */
  async create(input: CreateMember, options: RequestOptions = {}): Promise<Member> {
    const call = { method: "POST", path: "/v1/members", json: input, ...options } as const;
    return parseAnswer(MemberSchema, await this.#transport.json(call));
  }

  async list(options: RequestOptions = {}): Promise<Member[]> {
    return parseAnswer(MemberList, await this.#transport.json({ method: "GET", path: "/v1/members", ...options })).data;
  }

  /** Remove a person and revoke their keys, at once. @throws NotFoundError `not_found`, also when it was done before */
  async remove(id: string, options: RequestOptions = {}): Promise<Member> {
    const path = `/v1/members/${encodeURIComponent(id)}`;
    return parseAnswer(MemberSchema, await this.#transport.json({ method: "DELETE", path, ...options }));
  }
}
