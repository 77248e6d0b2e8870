#!/bin/sh
# Watches over a host's machines for a host agent that died or hangs: past the end of the host's lease every virtual
# machine that still runs is frozen (SIGSTOP), so that the edge may give it up. The host agent thaws what is still its.
# Usage: warden.sh STATE_DIR. Sleeps until the lease would end; a shell, so that it costs a host next to nothing.
state=$1
while [ -d "$state/run" ]; do
  read -r up _ </proc/uptime
  up=${up%.*}
  end=0
  [ -r "$state/host-lease" ] && read -r end <"$state/host-lease"
  if [ "$up" -lt "$end" ]; then
    sleep $((end - up)) &
    wait $!
    continue
  fi
  for file in "$state"/run/*.pid; do
    [ -r "$file" ] || continue
    read -r pid <"$file" || [ -n "$pid" ] || continue
    case $pid in '' | *[!0-9]*) continue ;; esac
    [ -r "/proc/$pid/cmdline" ] || continue
    machine=$(tr "\0" "\n" <"/proc/$pid/cmdline" | sed -n "s/.*mem-path=\(.*\/machines\/[^/]*\)\/[^/,]*,.*/\1/p" | head -n 1)
    # One whose state is saved does not run, and a golden machine has no name.
    [ -n "$machine" ] && [ ! -e "$machine/device-state" ] && kill -STOP "$pid" 2>/dev/null
  done
  sleep 1 &
  wait $!
done
