/** Version of this package; `test/sdk` holds it equal to package.json. */
export const VERSION = "0.1.0";
