/** The way out of a host that has none: everything is refused. */
import { EGRESS_REFUSAL_HEADER } from "../../sdk/contract/egress.ts";
import { errorBody, RouseFailure, statusOf } from "../../sdk/contract/errors.ts";
import { refusedDns } from "./dns-refusal.ts";
import type { Outside } from "./outside.ts";

const MESSAGE = "This host lets nothing out.";
const RULE = "closed";

export const closedOutside: Outside = {
  connect: (_machine, _target, _stream, answer) =>
    answer.refuse({ code: "egress_refused", message: MESSAGE, rule: RULE }),
  dns: (_machine, query) => Promise.resolve(refusedDns(query)),
  inside: (_machine, _request, response) => {
    const failure = new RouseFailure("egress_refused", MESSAGE);
    response.writeHead(statusOf(failure.code), {
      "content-type": "application/json; charset=utf-8",
      [EGRESS_REFUSAL_HEADER]: RULE,
    });
    response.end(Buffer.from(JSON.stringify(errorBody(failure))));
  },
  caPem: () => "",
  changed: () => undefined,
  gone: () => undefined,
};
