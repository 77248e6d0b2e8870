/** The Python that tests of the interpreter run: it has a Jupyter kernel, and the libraries that machines have. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const NEEDED = ["ipykernel", "zmq", "numpy", "pandas", "matplotlib"];

/** That of `ROUSE_TEST_KERNEL`, or the system's. */
export const KERNEL_PYTHON = process.env["ROUSE_TEST_KERNEL"] ?? "/usr/bin/python3";
/** Why no kernel runs here, if so. */
export const NO_KERNEL =
  spawnSync(KERNEL_PYTHON, ["-c", `import ${NEEDED.join(", ")}`]).status === 0
    ? null
    : `${KERNEL_PYTHON} lacks one of ${NEEDED.join(", ")}; ROUSE_TEST_KERNEL may name another Python`;
/** Says what the agent's bridge to a kernel says, on the standard library alone: for tests of what is around it. */
export const KERNEL_STAND_IN = fileURLToPath(new URL("kernel-stand-in.py", import.meta.url));
