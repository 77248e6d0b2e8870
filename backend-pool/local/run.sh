#!/usr/bin/env bash
# Run a TypeScript file with the project's own Node.js: run.sh FILE [ARGUMENT ...]
# FILE is taken from the current folder, or else from the project's.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
bin=$root/node_modules/.bin

if [ $# -eq 0 ]; then
  echo "usage: run.sh FILE [ARGUMENT ...]" >&2
  exit 2
fi
if [ ! -x "$bin/node" ]; then
  echo "The project's packages are not installed. Run: bash $root/backend-pool/local/setup.sh" >&2
  exit 1
fi

file=$1
shift
if [ ! -e "$file" ]; then file=$root/$file; fi

# Programs that a child starts by name: the project's node first, and the system tools that plain users lack on PATH.
export PATH="$bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"
# Compiled once: a program with its packages starts in half the time.
export NODE_COMPILE_CACHE="${NODE_COMPILE_CACHE:-$root/node_modules/.cache/compiled}"
exec "$bin/node" --disable-warning=ExperimentalWarning --conditions=rouse-source "$file" "$@"
