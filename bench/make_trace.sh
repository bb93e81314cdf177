#!/usr/bin/env bash
# Makes a trace of real TCP: nginx in one network namespace, ApacheBench in another, a veth pair between them
# without offloads, tcpdump on the server's end.
#
#   bench/make_trace.sh OUT.pcap [FILE_BYTES [REQUESTS [CONCURRENCY]]]     default: 1024 150000 512, as `http1k`
#
# One connection a request (no keep-alive). Needs root, nginx, ab (apache2-utils), tcpdump, ethtool, ip (iproute2).
# Ends with the requests that failed and the packets that tcpdump dropped: both ought to be 0.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '5p' "$0" | cut -c3- >&2; exit 2; }
out=$(realpath -m "$1") size=${2:-1024} requests=${3:-150000} concurrency=${4:-512}
for program in nginx ab tcpdump ethtool ip; do
    command -v "$program" >/dev/null || { echo "make_trace: there is no $program" >&2; exit 1; }
done
[ "$(id -u)" -eq 0 ] || { echo "make_trace: network namespaces need root" >&2; exit 1; }

work=$(mktemp -d)
server=sluice-server-$$ client=sluice-client-$$
pids=()
clean_up() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    ip netns del "$server" 2>/dev/null || true
    ip netns del "$client" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT

ip netns add "$server"
ip netns add "$client"
ip link add veth0 netns "$server" type veth peer name veth1 netns "$client"
ip -n "$server" addr add 10.9.0.1/16 dev veth0
ip -n "$client" addr add 10.9.1.1/16 dev veth1
for end in "$server veth0" "$client veth1"; do
    read -r namespace device <<<"$end"
    ip -n "$namespace" link set lo up
    ip -n "$namespace" link set "$device" up
    # segments as they are on a wire: nothing joined, nothing cut later
    ip netns exec "$namespace" ethtool -K "$device" tso off gso off gro off tx off rx off sg off >/dev/null 2>&1 || true
    ip netns exec "$namespace" sysctl -qw net.core.somaxconn=32768 net.ipv4.tcp_max_syn_backlog=32768 \
        net.ipv4.tcp_syncookies=0 net.ipv4.ip_local_port_range="1024 65535" net.ipv4.tcp_fin_timeout=5
done

mkdir "$work/www"
head -c "$size" /dev/urandom | base64 -w0 | head -c "$size" >"$work/www/file"
chmod -R a+rX "$work"
cat >"$work/nginx.conf" <<CONF
worker_processes 1; daemon off; pid $work/nginx.pid; error_log $work/error.log crit; worker_rlimit_nofile 60000;
events { worker_connections 30000; multi_accept on; }
http {
    access_log off; sendfile on; keepalive_timeout 0;
    server { listen 0.0.0.0:80 backlog=32768; root $work/www; }
}
CONF
ulimit -n 60000 2>/dev/null || true
ip netns exec "$server" nginx -e "$work/error.log" -c "$work/nginx.conf" &
pids+=($!)
mkdir -p "$(dirname "$out")"
# -Z root: the file may lie where the tcpdump user cannot write
ip netns exec "$server" tcpdump -Z root -i veth0 -s 0 -B 1048576 -w "$out" tcp port 80 2>"$work/tcpdump.log" &
tcpdump=$!
pids+=("$tcpdump")
for _ in $(seq 100); do
    grep -q 'listening on' "$work/tcpdump.log" && [ -s "$work/nginx.pid" ] && break
    sleep 0.1
done
ip netns exec "$client" ab -r -s 60 -q -n "$requests" -c "$concurrency" http://10.9.0.1/file |
    grep -E 'Complete|Failed|per second'
sleep 6 # the last connections close
kill -INT "$tcpdump"
wait "$tcpdump" || true
grep -E 'captured|dropped' "$work/tcpdump.log"
ls -l "$out"
