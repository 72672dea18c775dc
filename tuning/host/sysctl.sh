#!/bin/sh
# Kernel settings that matter to a broker. Lasts until the next boot.
. "$(dirname "$0")/lib.sh"

settings() {
    cat <<'SETTINGS'
/proc/sys/vm/swappiness 1 memory of the broker that rests would be written out, and the next message would wait for it
/proc/sys/vm/dirty_background_bytes 268435456 write-back of other programs (and of backend=mapped) starts early and stays small
/proc/sys/vm/dirty_bytes 1073741824 no flush of ours waits behind gigabytes of somebody else's dirty pages
/proc/sys/net/core/somaxconn 4096 a rush of clients after a restart is queued instead of refused
/proc/sys/net/ipv4/tcp_max_syn_backlog 4096 the same, one step earlier
SETTINGS
}

# 0 bytes means that a ratio is in force, and 0 can't be written: the way back is the ratio.
way_back() {
    case $1 in
        */dirty_bytes | */dirty_background_bytes)
            if [ "$(current "$1")" = 0 ]; then
                set -- "${1%_bytes}_ratio"
            fi
            ;;
    esac
    printf '%s %s\n' "$1" "$(current "$1")"
}

main "$@"
