#!/bin/sh
# Limits of open files and locked memory for login sessions, by a file of pam_limits. A service has them in its unit
# (LimitNOFILE=65536, LimitMEMLOCK=infinity), a container in its options (--ulimit). RINGMQ_USER names the user
# (default: everybody). Takes effect at the next login.
. "$(dirname "$0")/lib.sh"

file=/etc/security/limits.d/90-ringmq.conf
mark='# written by RingMQ tuning/host/limits.sh; its undo removes this file'

content() {
    printf '%s\n' "$mark"
    for kind in soft hard; do
        printf '%s %s nofile 65536\n' "${RINGMQ_USER:-*}" "$kind"
        printf '%s %s memlock unlimited\n' "${RINGMQ_USER:-*}" "$kind"
    done
}

check() {
    printf 'this session: open files %s, locked memory %s KiB\n' "$(ulimit -n)" "$(ulimit -l)"
    if [ -e "$root$file" ] && content | cmp -s - "$root$file"; then
        printf 'ok       %s\n' "$file"
    else
        printf 'differs  %s: a broker with many clients and queues needs many files, and its rings locked memory\n' "$file"
        exit 1
    fi
}

apply() {
    if [ -e "$root$file" ] && ! grep -qxF "$mark" "$root$file"; then
        printf 'refused  %s exists and is not from this script\n' "$file" >&2
        exit 1
    fi
    mkdir -p "$root$(dirname "$file")"
    content > "$root$file"
    printf 'set      %s\n' "$file"
}

undo() {
    if [ -e "$root$file" ] && grep -qxF "$mark" "$root$file"; then
        rm "$root$file"
        printf 'removed  %s\n' "$file"
    else
        printf 'nothing to undo\n'
    fi
}

main "$@"
