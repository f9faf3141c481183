#!/bin/sh
# Says which relative links of the Markdown files in a directory lead nowhere, and fails if there are any. Those that
# lead to what the source alone has are right: crates, applications and what goes with them. Usage: check-links.sh DIRECTORY
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
        case ${target#"$top"/} in
            apps | apps/* | crates/* | fuzz | packaging/* | rust-toolchain.toml) continue ;;
        esac
        test -e "$target" || echo "${file#"$top"/}: $link"
    done
done > "$broken"
cat "$broken"
test ! -s "$broken"
