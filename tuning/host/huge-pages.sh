#!/bin/sh
# Transparent huge pages: only where a program asks for them. Lasts until the next boot.
. "$(dirname "$0")/lib.sh"

settings() {
    cat <<'SETTINGS'
/sys/kernel/mm/transparent_hugepage/enabled madvise the kernel gathering pages on its own stops a core for milliseconds
/sys/kernel/mm/transparent_hugepage/defrag madvise moving memory to make large pages does the same
SETTINGS
}

main "$@"
