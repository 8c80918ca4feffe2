#!/usr/bin/env bash
# Regenerates the figures of README.md and the documents on the machine it runs on:
#
#	docs/figures.sh [FILE...]
#
# Every block below a line "<!-- run: COMMAND -->" becomes the command and what it prints;
# with a line "<!-- show: SCRIPT -->" behind that, the lines of it that sed -nE SCRIPT
# prints, and "..." for the others. The commands of a file run one after the other in one
# directory; a kiln serve goes on until its file is done. A command that this kiln does
# not have, or that fails, is named on stderr and its block stays as it was; so does one
# marked "<!-- exits: N -->" that ends in another way.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked
PATH=$(realpath "${CARGO_TARGET_DIR:-target}")/release:$PATH
[ $# -gt 0 ] || set -- README.md docs/*.md docs/tutorials/*.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# The files that the examples read, in the directory $1.
files_of_examples() {
	seq 1000 >"$1/plain"
	ln -s "$PWD/crates/questions/tests/machines/debian-6.12" "$1/"
	head -c 64 /dev/urandom >"$1/key"
	# A capture of raw IP: 20,000 packets, 20 us apart.
	perl -e 'print pack("V6", 0xa1b2c3d4, 0x40002, 0, 0, 96, 101);
		for $n (0 .. 19999) {
			$size = (40, 1500, 576, 40, 1500, 40, 40, 576)[$n % 8];
			$kept = $size < 96 ? $size : 96;
			$us = $n * 20 + $n * 7 % 13;
			print pack("V4", int($us / 1e6), $us % 1e6, $kept, $size),
				pack("CCnx5Cx" . ($kept - 10), 0x45, 0, $size, 17);
		}' >"$1/traffic.pcap"
	cat >"$1/my.c" <<-'END'
		#include <stddef.h>
		#include <stdint.h>

		uint32_t crc(const uint8_t *data, size_t len)
		{
			uint32_t c = ~0u;
			size_t i;
			int k;

			for (i = 0; i < len; i++) {
				c ^= data[i];
				for (k = 0; k < 8; k++)
					c = c >> 1 ^ (c & 1 ? 0x82f63b78 : 0);
			}
			return ~c;
		}
	END
}

# Of the file $1 the lines that the sed script $2 prints, and "..." where lines are left out.
shown() {
	sed -nE "$2" "$1" >"$work/kept"
	awk 'NR == FNR { kept[NR] = $0; next }
		kept[at + 1] == $0 && at < length(kept) { at++; print; gap = 0; next }
		!gap { print "..."; gap = 1 }' "$work/kept" "$1"
}

# Runs $1 in the directory $2; its output goes to $work/out. Exit status 0 or $3.
record() {
	local status=0
	if [[ $1 == 'kiln serve '* ]]; then
		(cd "$2" && exec bash -c "exec ${1%&}") >"$2/.served" 2>&1 </dev/null &
		servers+=($!)
		sleep 1
		cp "$2/.served" "$work/out"
		kill -0 $!
		return
	fi
	(cd "$2" && bash -o pipefail -c "$1") >"$work/out" 2>"$work/err" </dev/null || status=$?
	[ "$status" -eq 0 ] || [ "$status" = "$3" ]
}

# Regenerates the file $1.
regenerate() {
	local line command show exits old dir servers=()
	# By the same path each time: what was built of a tree there is built no more.
	dir=$PWD/target/figures/${1//\//-}
	rm -rf "$dir"
	mkdir -p "$dir"
	files_of_examples "$dir"
	exec 3<"$1"
	while IFS= read -r -u 3 line; do
		printf '%s\n' "$line"
		case $line in '<!-- run: '*' -->') ;; *) continue ;; esac
		command=${line#'<!-- run: '}
		command=${command%' -->'}
		show=p
		exits=0
		while IFS= read -r -u 3 line && [[ $line == '<!-- '* ]]; do
			printf '%s\n' "$line"
			case $line in
			'<!-- show: '*) show=${line#'<!-- show: '} show=${show%' -->'} ;;
			'<!-- exits: '*) exits=${line#'<!-- exits: '} exits=${exits%' -->'} ;;
			esac
		done
		old=("$line")
		while IFS= read -r -u 3 line; do
			old+=("$line")
			[ "$line" != '```' ] || break
		done
		echo "$1: $command" >&2
		if record "$command" "$dir" "$exits"; then
			printf '```\n$ %s\n' "$command"
			[ ! -s "$work/out" ] || shown "$work/out" "$show"
			printf '```\n'
		else
			echo "left as it was: $command: $(tail -n 1 "$work/err")" >&2
			printf '%s\n' "${old[@]}"
			failed=1
		fi
	done >"$work/new"
	exec 3<&-
	[ ${#servers[@]} -eq 0 ] || kill "${servers[@]}"
	cat "$work/new" >"$1"
}

for file; do
	regenerate "$file"
done
exit "$failed"
