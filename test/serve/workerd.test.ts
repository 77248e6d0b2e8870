import { describePromises } from "./promises.ts";

describePromises("workerd");
