#!/bin/sh
# The kept inputs of the fuzz targets. corpora/TARGET has one input per line, in base64.
#
#   fuzz/corpora.sh unpack TARGET...   copies kept inputs into corpus/TARGET, from which
#                                      cargo fuzz starts
#   fuzz/corpora.sh pack TARGET...     minimises corpus/TARGET and keeps its smallest inputs
#
# Without cargo fuzz, FUZZERS=DIR names a directory with the targets' programs.
set -eu
cd "$(dirname "$0")"
# Maximum size of the kept inputs of one target in bytes, before they are encoded.
most=24000

merge() {
	if [ -n "${FUZZERS:-}" ]; then
		"$FUZZERS/$1" -merge=1 "$2" "$3" >/dev/null 2>&1
	else
		cargo +nightly fuzz run "$1" "$2" "$3" -- -merge=1 >/dev/null 2>&1
	fi
}

unpack() {
	mkdir -p "corpus/$1"
	while read -r line; do
		printf %s "$line" | base64 -d >"$made/input"
		mv "$made/input" "corpus/$1/$(printf %s "$line" | sha1sum | cut -d' ' -f1)"
	done <"corpora/$1"
}

pack() {
	mkdir "$made/$1"
	merge "$1" "$made/$1" "corpus/$1"
	sum=0
	find "$made/$1" -type f -size +0 -printf '%s %p\n' | LC_ALL=C sort -k1,1n -k2,2 |
		while read -r size file; do
			sum=$((sum + size))
			[ "$sum" -le "$most" ] || break
			base64 -w0 "$file"
			echo
		done >"$made/lines"
	[ -s "$made/lines" ] || { echo "$1: no inputs in fuzz/corpus/$1" >&2; exit 1; }
	mkdir -p corpora
	mv "$made/lines" "corpora/$1"
	echo "$1: $(find "$made/$1" -type f | wc -l) inputs, $(wc -l <"corpora/$1") kept"
}

what=${1:-}
case $what in
pack | unpack) shift ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
for target; do
	"$what" "$target"
done
