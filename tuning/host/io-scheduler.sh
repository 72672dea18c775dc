#!/bin/sh
# Requests go to solid-state disks as they come. Lasts until the next boot. RINGMQ_DEVICES names the block devices as
# under /sys/block (default: every one that doesn't turn and isn't a loop, RAM or zram device).
. "$(dirname "$0")/lib.sh"

devices() {
    if [ -n "${RINGMQ_DEVICES:-}" ]; then
        printf '%s\n' $RINGMQ_DEVICES
        return
    fi
    for place in "$root"/sys/block/*; do
        name=$(basename "$place")
        case $name in
            loop* | ram* | zram* | dm-* | md*) continue ;;
        esac
        if [ "$(cat "$place/queue/rotational" 2>/dev/null)" = 0 ]; then
            printf '%s\n' "$name"
        fi
    done
}

settings() {
    for name in $(devices); do
        printf '/sys/block/%s/queue/scheduler none a scheduler holds small syncs back to gather them or to be fair\n' "$name"
    done
}

main "$@"
