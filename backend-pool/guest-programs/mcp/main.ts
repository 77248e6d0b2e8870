/** The program `rouse-mcp`: its settings are in a variable that no other program gets. */
import { GATEWAY_VARIABLE, type GatewaySettings } from "../../../sdk/contract/mcp.ts";
import { Gateway } from "./gateway.ts";

const { [GATEWAY_VARIABLE]: text, ...env } = process.env;
if (text === undefined) {
  console.error(`${GATEWAY_VARIABLE} is not set: this program is started by rouse mcp start.`);
  process.exit(2);
}
const gateway = new Gateway(JSON.parse(text) as GatewaySettings, env);
process.on("unhandledRejection", (fault) => console.error(fault));
for (const signal of ["SIGTERM", "SIGINT"] as const)
  process.once(signal, () => void gateway.stop().then(() => process.exit(0)));
console.log(`listening on port ${await gateway.start()}`);
