"""Version of this package; ``test/sdk`` holds it equal to that of the TypeScript SDK."""

VERSION = "0.1.0"
