/** Questions about paths of this host. */
import { stat } from "node:fs/promises";

/** Whether anything is there that this process may look at. */
export function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
