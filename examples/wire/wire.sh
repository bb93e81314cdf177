#!/bin/sh
# A client, a box and a server on one machine, in three network namespaces: `wire.sh up`, and `wire.sh down`. Needs root.
#
#   client (10.99.0.1) ---- left  box  right ---- server (10.99.0.2, HTTP on port 8000)
set -eu
client=sluice-client box=sluice-box server=sluice-server

down() {
    for space in $client $box $server; do
        ip netns pids $space 2>/dev/null | xargs -r kill
        for _ in 1 2 3 4 5 6 7 8 9 10; do   # a box ends with a summary, for which it needs its interfaces
            [ -n "$(ip netns pids $space 2>/dev/null)" ] || break
            sleep 0.3
        done
    done
    for space in $client $box $server; do
        ip netns del $space 2>/dev/null || true
    done
}

case ${1:-} in
up)
    down
    for space in $client $box $server; do
        ip netns add $space
    done
    ip link add eth0 netns $client type veth peer name left netns $box
    ip link add eth0 netns $server type veth peer name right netns $box
    ip -n $client address add 10.99.0.1/24 dev eth0
    ip -n $server address add 10.99.0.2/24 dev eth0
    for end in "$client eth0" "$server eth0" "$box left" "$box right"; do
        set -- $end
        ip -n "$1" link set "$2" up
        # the kernel must not join segments to packets that are larger than the link allows
        ip netns exec "$1" ethtool -K "$2" gro off tso off gso off
    done
    # the site of this folder's files
    cd "$(dirname "$0")"
    ip netns exec $server python3 -m http.server 8000 --bind 10.99.0.2 >/dev/null 2>&1 </dev/null &
    ;;
down) down ;;
*)
    echo "usage: $0 up|down" >&2
    exit 2
    ;;
esac
