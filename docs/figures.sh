#!/usr/bin/env bash
# Regenerates the figures of README.md on the machine it runs on:
#
#	docs/figures.sh
#
# Every block of README.md below a line "<!-- run: COMMAND -->" becomes the
# command and what it prints. A command that this kiln does not have, or that
# fails, is named on stderr and its block stays as it was.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked
PATH=$(realpath "${CARGO_TARGET_DIR:-target}")/release:$PATH
readme=$PWD/README.md
new=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "$new" "$work"' EXIT

# What the examples of kiln crypt read.
seq 1000 >"$work/plain"
head -c 64 /dev/urandom >"$work/key"

failed=0
exec 3<"$readme"
while IFS= read -r -u 3 line; do
	printf '%s\n' "$line"
	case $line in '<!-- run: '*' -->') ;; *) continue ;; esac
	command=${line#'<!-- run: '}
	command=${command%' -->'}
	old=()
	while IFS= read -r -u 3 line; do
		old+=("$line")
		[ ${#old[@]} -eq 1 ] || [ "$line" != '```' ] || break
	done
	echo "$command" >&2
	if output=$(cd "$work" && bash -o pipefail -c "$command" 2>"$work/err" </dev/null); then
		printf '```\n$ %s\n' "$command"
		[ -z "$output" ] || printf '%s\n' "$output"
		printf '```\n'
	else
		echo "left as it was: $command: $(tail -n 1 "$work/err")" >&2
		printf '%s\n' "${old[@]}"
		failed=1
	fi
done >"$new"
cat "$new" >"$readme"
exit "$failed"
