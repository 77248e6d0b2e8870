#!/bin/sh
# Runs once per boot of a guest, before the agent. No service manager: an idle guest must have nothing that ticks.
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev shm /dev/shm
mount -t tmpfs -o mode=755,nosuid,nodev run /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/rouse /run/lock
rm -rf /tmp/* /tmp/.[!.]*
ln -sfn /proc/self/fd /dev/fd
ln -sfn /proc/self/fd/0 /dev/stdin
ln -sfn /proc/self/fd/1 /dev/stdout
ln -sfn /proc/self/fd/2 /dev/stderr
modprobe -q virtio_balloon
# Connections of a source of copies are ended by it.
modprobe -q tcp_diag
hostname -F /etc/hostname 2>/dev/null
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
# It leads nowhere: the kernel only asks the rules below once there is a route. IPv6 has none.
ip route add default via 10.0.2.2
# Ports the host forwards arrive on eth0; servers that listen on loopback alone get them too.
sysctl -q -w net.ipv4.conf.eth0.route_localnet=1 net.ipv4.conf.all.route_localnet=1
nft -f - <<'NFT'
table ip rouse {
  chain prerouting {
    type nat hook prerouting priority dstnat;
    iifname "eth0" ip saddr 10.0.2.2 tcp dport != 10800 dnat to 127.0.0.1
  }
  # The way out is the guest agent's: names by its resolver, connections by rouse-redirect.
  chain output {
    type nat hook output priority dstnat;
    ip daddr { 127.0.0.0/8, 10.0.2.0/24 } return
    udp dport 53 redirect to :53
    tcp dport 53 redirect to :53
    meta l4proto tcp redirect to :10802
  }
  # The rest is refused at once, so that who asks by QUIC goes on to ask by TCP.
  chain refuse {
    type filter hook output priority filter;
    ip daddr { 127.0.0.0/8, 10.0.2.0/24 } accept
    reject
  }
}
NFT
# The disk of a shape is larger than the image it is made from; after the first boot this finds nothing to do.
resize2fs /dev/vda >/dev/null 2>&1
chown runtime:runtime /workspace
ln -sfn ../../lib/rouse/rouse-checkpoint /usr/local/bin/rouse-checkpoint
# As with the agent: a name of its own.
ln -sfn /usr/local/bin/node /usr/lib/rouse/rouse-mcp
exit 0
