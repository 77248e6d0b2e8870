#!/bin/busybox sh
# First program of a guest: loads what the root disk needs, brings the agent of this host, hands over to PID 1.
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in /lib/*.ko; do /bin/busybox insmod "$module"; done
if /bin/busybox grep -q rouse.probe=1 /proc/cmdline; then
  echo rouse-probe-ok >/dev/console
  /bin/busybox poweroff -f
fi
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 500 ]; do
  tries=$((tries + 1))
  /bin/busybox usleep 10000
done
/bin/busybox mount -t ext4 -o rw,noatime,noinit_itable /dev/vda /mnt || {
  echo "rouse: the root disk does not mount" >/dev/console
  /bin/busybox poweroff -f
}
/bin/busybox mkdir -p /mnt/usr/lib/rouse
/bin/busybox cp -a /rouse/. /mnt/usr/lib/rouse/
for folder in dev proc sys; do /bin/busybox mount --move /$folder /mnt/$folder; done
exec /bin/busybox switch_root /mnt /usr/lib/rouse/rouse-init
