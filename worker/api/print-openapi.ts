/** Prints the committed OpenAPI document: `node print-openapi.ts > sdk/openapi.json`. */
import { openApi } from "./openapi.ts";
import { operations } from "./operations.ts";
import { plainRoutes } from "./plain-routes.ts";

console.log(JSON.stringify(openApi(operations, plainRoutes), null, 2));
