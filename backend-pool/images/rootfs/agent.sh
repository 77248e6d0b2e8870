#!/bin/sh
# Started and restarted by PID 1. A name of its own, so that "pkill node" in a sandbox does not mean the agent.
cd /usr/lib/rouse
# The host brought newer programs. Where they did not come up, these files are still there, and the ones before come back.
state=/run/rouse/agent
if [ -e $state/tried ] && [ -e $state/renewed ]; then
  for old in .before/*; do
    name=${old#.before/}
    rm -rf "$name"
    mv "$old" "$name"
  done
  rm -f $state/tried $state/renewed
elif [ -e $state/renewed ]; then
  touch $state/tried
fi
ln -sfn /usr/local/bin/node /usr/lib/rouse/rouse-agent
cd /workspace
export HOME=/workspace
exec /usr/lib/rouse/rouse-agent /usr/lib/rouse/agent.mjs \
  --listen 10.0.2.15:10800 --allow-from 10.0.2.2 --user runtime --state /run/rouse/agent \
  --inside 127.0.0.1:10800 --timers /var/lib/rouse-agent/timers.json \
  --proxy 127.0.0.1:10801 --resolver 127.0.0.1:53 --names /run/rouse/names/table --trust /usr/lib/rouse/trust.sh \
  --redirect /usr/lib/rouse/rouse-redirect --redirect-port 10802 --renewable /usr/lib/rouse \
  --version-id "$(cat /usr/lib/rouse/version)" --preload-interpreter >/run/rouse/agent.log 2>&1
