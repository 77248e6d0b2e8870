import { describePromises } from "./promises.ts";

describePromises("miniflare");
