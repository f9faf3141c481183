#!/bin/sh
# Makes plain text of those relative links of the Markdown files in a directory that lead nowhere in it, as links do to what
# the source alone has. Usage: plain-links.sh DIRECTORY
set -eu

top=$(cd "$1" && pwd)
plain=$(mktemp)
trap 'rm -f "$plain"' EXIT
find "$top" -name '*.md' | while read -r file; do
    # A link may go over two lines: the file is one record.
    HERE=$(dirname "$file") awk -v RS='\001' -v ORS='' '
        function leads_nowhere(link) {
            sub(/#.*/, "", link)
            if (link == "" || link ~ /^[a-z]+:/) return 0
            gsub(/\047/, "", link)
            return system("test -e \"$HERE\"/\047" link "\047") != 0
        }
        {
            text = $0
            while (match(text, /\[[^][]*\]\([^() \n]*\)/)) {
                whole = substr(text, RSTART, RLENGTH)
                words = whole; sub(/\]\([^()]*\)$/, "", words); words = substr(words, 2)
                link = whole; sub(/^.*\]\(/, "", link); sub(/\)$/, "", link)
                print substr(text, 1, RSTART - 1)
                rest = substr(text, RSTART + RLENGTH)
                print leads_nowhere(link) ? words : whole
                text = rest
            }
            print text
        }' "$file" > "$plain"
    cat "$plain" > "$file"
done
