# Shared by the host scripts; not to be run itself. A script names its settings by a function `settings` that prints
# lines "file wanted reason", and calls `main "$@"`. What `apply` changes, `undo` puts back.
#
# RINGMQ_TUNING_STATE  where previous values are kept (default /var/lib/ringmq-tuning)
# RINGMQ_TUNING_ROOT   put before every path, for trying the scripts on a copy (default: nothing)

set -eu

root=${RINGMQ_TUNING_ROOT:-}
state=$root${RINGMQ_TUNING_STATE:-/var/lib/ringmq-tuning}
record=$state/$(basename "$0" .sh)

# The value in force: of files like "always [madvise] never" the word in brackets.
current() {
    value=$(cat "$root$1")
    case $value in
        *\[*\]*) value=${value#*\[}; value=${value%%\]*} ;;
    esac
    printf '%s\n' "$value" | tr '\t' ' '
}

# What has to be written to get back to now, as "file value". Some settings need another file for that.
way_back() {
    printf '%s %s\n' "$1" "$(current "$1")"
}

check() {
    differs=0
    settings | {
        while read -r file wanted reason; do
            if [ ! -e "$root$file" ]; then
                printf 'absent   %s (this host has no such setting)\n' "$file"
            elif [ "$(current "$file")" = "$wanted" ]; then
                printf 'ok       %s = %s\n' "$file" "$wanted"
            else
                differs=1
                printf 'differs  %s = %s, wanted %s: %s\n' "$file" "$(current "$file")" "$wanted" "$reason"
            fi
        done
        exit $differs
    }
}

apply() {
    mkdir -p "$state"
    touch "$record"
    settings | while read -r file wanted reason; do
        [ -e "$root$file" ] || continue
        [ "$(current "$file")" != "$wanted" ] || continue
        # Only the first change is remembered: it is the value from before the tuning. It reaches the disk first.
        back=$(way_back "$file")
        grep -q "^${back%% *} " "$record" || printf '%s\n' "$back" >> "$record"
        sync "$record" 2>/dev/null || sync
        if printf '%s\n' "$wanted" > "$root$file"; then
            printf 'set      %s = %s (was: %s)\n' "$file" "$wanted" "${back#* }"
        else
            printf 'refused  %s = %s (root is needed, or the kernel does not allow it)\n' "$file" "$wanted" >&2
            exit 1
        fi
    done
}

undo() {
    if [ ! -s "$record" ]; then
        printf 'nothing to undo: no previous values in %s\n' "$record"
        return
    fi
    while read -r file value; do
        printf '%s\n' "$value" > "$root$file"
        printf 'restored %s = %s\n' "$file" "$value"
    done < "$record"
    rm "$record"
}

main() {
    case ${1:-} in
        check) check ;;
        apply) apply ;;
        undo) undo ;;
        *)
            printf 'usage: %s check|apply|undo\n' "$0" >&2
            printf '  check  shows each setting, changes nothing; exits with 1 when one differs\n' >&2
            printf '  apply  sets what differs and remembers what was there (as root)\n' >&2
            printf '  undo   puts back what was there before the first apply (as root)\n' >&2
            exit 2
            ;;
    esac
}
