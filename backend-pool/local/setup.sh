#!/usr/bin/env bash
# Bring this machine to where Rouse runs: npm packages, and the system packages for virtual machines.
#   setup.sh [--packages-only | --browser]     --packages-only: npm packages alone; --browser: also what tests of the dashboard need
# Safe to run again and twice at once; quick when nothing is missing. ROUSE_QUIET=1 then prints nothing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
lock=$root/package-lock.json
stamp=$root/node_modules/.rouse-lock-sha256
trixie_key=/usr/share/keyrings/debian-archive-trixie-automatic.gpg
wait_limit=300 # seconds to wait for another apt or another set-up

system=yes
browser=
case "${1:-}" in
  "") ;;
  --browser) browser=yes ;;
  --packages-only) system= ;;
  *)
    echo "usage: setup.sh [--packages-only | --browser]" >&2
    exit 2
    ;;
esac

# A plain user's PATH has no sbin, where mkfs.ext4 lives. The project's own npm must not install over itself.
PATH=$(
  IFS=:
  for dir in $PATH; do
    case "$dir" in */node_modules/.bin | */node-gyp-bin) ;; *) printf '%s:' "$dir" ;; esac
  done
)/usr/local/sbin:/usr/sbin:/sbin

say() { printf '%s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# --- what is missing -------------------------------------------------------------------------------------------------

npm_ready() {
  local sum
  [ -x "$root/node_modules/.bin/node" ] && [ -f "$stamp" ] || return 1
  sum=$(sha256sum <"$lock")
  [ "$(<"$stamp")" = "${sum%% *}" ]
}

# Debian packages that this machine lacks, by the file each is wanted for.
missing_packages() {
  local package file
  while read -r package file; do
    case "$file" in
      /*) [ -e "$file" ] || echo "$package" ;;
      *) type -P "$file" >/dev/null || echo "$package" ;;
    esac
  done <<END
qemu-system-x86 qemu-system-x86_64
qemu-utils qemu-img
mmdebstrap mmdebstrap
e2fsprogs mkfs.ext4
xz-utils xz
zstd zstd
cpio cpio
busybox-static /var/lib/dpkg/info/busybox-static.list
ca-certificates /etc/ssl/certs/ca-certificates.crt
debian-archive-keyring $trixie_key
END
  # Without root, mmdebstrap builds in a user namespace.
  if [ "$EUID" -ne 0 ] && ! type -P newuidmap >/dev/null; then echo uidmap; fi
}

browser_ready() { [ -z "$browser" ] || [ -e "${ROUSE_CHROMIUM:-/usr/bin/chromium}" ]; }

ready() {
  npm_ready && browser_ready || return 1
  [ -z "$system" ] || [ -z "$(missing_packages)" ]
}

all_there() { [ -n "${ROUSE_QUIET:-}" ] || say "set-up: everything is there"; }

if ready; then
  all_there
  exit 0
fi

# --- one set-up at a time, with progress ------------------------------------------------------------------------------

exec 9<"$lock"
if ! flock -n 9; then
  say "set-up: another one is at work in this folder; waiting for it ..."
  flock -w "$wait_limit" 9 || die "set-up: the other one did not end in $wait_limit s. Look for it with: ps aux | grep setup.sh"
  if ready; then
    all_there
    exit 0
  fi
fi

log=$(mktemp)
child=
cleanup() { rm -f "$log"; }
stop() {
  # Background jobs of a script don't get the terminal's interrupt.
  if [ -n "$child" ]; then
    kill -TERM "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  fi
  exit 130
}
trap cleanup EXIT
trap stop INT TERM HUP

# Run a command, its output to $log, with a line every 15 s that says it is alive.
quietly() {
  local what=$1 ticks=0
  shift
  "$@" >"$log" 2>&1 </dev/null 9<&- &
  child=$!
  while kill -0 "$child" 2>/dev/null; do
    sleep 0.2
    ticks=$((ticks + 1))
    if [ $((ticks % 75)) -eq 0 ]; then say "  ... $what ($((ticks / 5)) s)"; fi
  done
  local status=0
  wait "$child" || status=$?
  child=
  return "$status"
}

network_trouble() {
  grep -qE 'ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|Temporary failure resolving|Could not resolve|Could not connect|Connection timed out|Failed to fetch' "$log"
}

# --- npm packages -----------------------------------------------------------------------------------------------------

install_npm_packages() {
  local major sum started=$SECONDS
  type -P node >/dev/null && type -P npm >/dev/null ||
    die "set-up: Node.js 20 or later and npm are needed. On Debian 13: apt-get install -y nodejs npm"
  major=$(node -p 'process.versions.node.split(".")[0]')
  [ "$major" -ge 20 ] || die "set-up: Node.js 20 or later is needed; $(type -P node) is $(node --version). See https://nodejs.org"

  say "set-up: installing npm packages (about 200 MB to download, usually 30 to 90 s) ..."
  # Said outright, because a user's own npm settings may differ: install scripts bring Node.js 24, esbuild and workerd.
  if ! (cd "$root" && quietly "installing npm packages" \
    npm ci --include=dev --include=optional --ignore-scripts=false --no-audit --no-fund --no-progress); then
    grep -vE 'EBADENGINE|^npm [^ ]+ +at ' "$log" | tail -n 25 >&2
    if network_trouble; then die "set-up: npm could not reach its registry. Check network and proxy (npm ping), then run this again."; fi
    die "set-up: npm ci failed; the lines above say why. Run this again when it is mended."
  fi
  "$root/node_modules/.bin/node" -e 0 2>"$log" || {
    cat "$log" >&2
    die "set-up: the packages are installed, but node_modules/.bin/node does not run here."
  }
  sum=$(sha256sum <"$lock")
  echo "${sum%% *}" >"$stamp"
  say "set-up: npm packages installed in $((SECONDS - started)) s"
}

# --- system packages --------------------------------------------------------------------------------------------------

# How apt-get gets to be root without asking anybody; fails where it can't.
find_root() {
  if [ "$EUID" -eq 0 ]; then
    as_root=()
  elif type -P sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    return 1
  fi
}

# apt-get as root, waiting while another apt or dpkg holds a lock.
run_apt() {
  local what=$1 waited=0 status
  shift
  while :; do
    status=0
    quietly "$what" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q -y \
      -o Acquire::Retries=3 -o Acquire::Languages=none -o Dpkg::Use-Pty=0 "$@" || status=$?
    [ "$status" -ne 0 ] || return 0
    grep -qE 'Could not get lock|Unable to (acquire|lock)' "$log" || return "$status"
    [ "$waited" -lt "$wait_limit" ] || die "set-up: another program held the lock of apt for $wait_limit s. Run this again when it has ended."
    if [ $((waited % 30)) -eq 0 ]; then say "set-up: another program uses apt (automatic updates?); waiting for it ..."; fi
    sleep 5
    waited=$((waited + 5))
  done
}

install_system_packages() {
  local packages started=$SECONDS update_failed=
  mapfile -t packages < <(missing_packages)
  [ ${#packages[@]} -gt 0 ] || return 0

  type -P apt-get >/dev/null ||
    die "set-up: this is not Debian (no apt-get). Install these by hand, then run this again: ${packages[*]}"
  if find_root; then
    :
  elif type -P sudo >/dev/null && [ -t 0 ] && [ -t 2 ]; then
    say "set-up: system packages are missing (${packages[*]}); sudo may ask for your password."
    sudo -v || die "set-up: without sudo, run this as root once: apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
    as_root=(sudo -n)
  else
    say "set-up: system packages are missing and this user cannot install them. Run this as root once:"
    die "apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
  fi

  say "set-up: installing system packages (about 30 MB to download, usually 20 to 60 s): ${packages[*]} ..."
  run_apt "reading package lists" update || update_failed=yes
  if ! run_apt "installing system packages" install --no-install-recommends "${packages[@]}"; then
    tail -n 25 "$log" >&2
    if [ -n "$update_failed" ] || network_trouble; then
      die "set-up: apt could not reach its servers. Check the network and /etc/apt/sources.list, then run this again."
    fi
    die "set-up: apt-get failed; the lines above say why. Run this again when it is mended."
  fi
  mapfile -t packages < <(missing_packages)
  [ ${#packages[@]} -eq 0 ] ||
    die "set-up: apt installed all, yet this is still not usable: ${packages[*]}. Debian 12 or 13 with current updates is needed."
  say "set-up: system packages installed in $((SECONDS - started)) s"
}

# Tests of the dashboard alone need it, and say themselves that they are skipped without.
install_browser() {
  if type -P apt-get >/dev/null && find_root; then
    say "set-up: installing Chromium for tests of the dashboard (about 100 MB to download) ..."
    run_apt "reading package lists" update || true
    if run_apt "installing Chromium" install --no-install-recommends chromium; then return 0; fi
    tail -n 5 "$log" >&2
  fi
  say "set-up: Chromium can't be had here, so tests of the dashboard in a browser are skipped."
}

# System packages first: a person who must type a password is still there.
[ -z "$system" ] || install_system_packages
browser_ready || install_browser
npm_ready || install_npm_packages
