#!/bin/sh
# Says which relative links of the Markdown files in a directory lead nowhere in it, and fails if there are any.
# Usage: check-links.sh DIRECTORY
set -eu

top=$(cd "$1" && pwd)
broken=$(mktemp)
trap 'rm -f "$broken"' EXIT
find "$top" -name '*.md' | while read -r file; do
    here=$(dirname "$file")
    grep -o '](\([^)]*\))' "$file" | sed -e 's/^](//' -e 's/)$//' -e 's/#.*//' | sort -u | while read -r link; do
        case $link in
            '' | *://* | mailto:*) continue ;;
        esac
        target=$(realpath -ms "$here/$link")
        case $target in
            "$top" | "$top"/*) test -e "$target" && continue ;;
        esac
        echo "${file#"$top"/}: $link"
    done
done > "$broken"
cat "$broken"
test ! -s "$broken"
