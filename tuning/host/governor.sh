#!/bin/sh
# Every core at its full frequency. Lasts until the next boot. Virtual machines usually have no such setting.
. "$(dirname "$0")/lib.sh"

settings() {
    for file in "$root"/sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do
        [ -e "$file" ] || continue
        printf '%s performance a core that slowed down while idle takes tens of microseconds longer for the next message\n' \
            "${file#"$root"}"
    done
}

main "$@"
