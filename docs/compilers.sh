#!/bin/sh
# The figures of docs/COMPILERS.md, on a quiet machine.
#   docs/compilers.sh DIR [KILN [TREE]]
# Writes what is printed, the records and the pictures into DIR:
#   matrix     six compilers at most, four levels, four variants, two subjects; cold, then from the cache
#   again      the same cells once more: how many figures are within 2 %, how many verdicts are not `same`
#   planted    a function with 3 % more work in it, against itself without
#   tree       Kiln's aes-generic beside the tree's files in one run
set -eu
out=$1
kiln=${2:-kiln}
tree=${3:-}
mkdir -p "$out"
unset XDG_CACHE_HOME
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export XDG_CACHE_HOME="$cache"
two='--subject aes-generic,sha256-generic'
# The newest four clangs and both gccs of Debian 12, or what there is of them.
cc=
for name in gcc-11 gcc-12 clang-13 clang-14 clang-15 clang-16 clang-19 clang-22; do
	command -v "$name" >/dev/null && cc="$cc${cc:+,}$name"
done
six=$(echo "$cc" | cut -d, -f1-6)

echo "== matrix, cold: at most 8 minutes"
time "$kiln" compilers --cc "$six" $two --out "$out/cold" >"$out/cold.txt"
echo "== matrix, from the cache: at most 3 minutes"
time "$kiln" compilers --cc "$six" $two --out "$out/cached" >"$out/cached.txt"
echo "== again: judged by the run before"
"$kiln" compilers --cc "$six" $two --baseline "$out/cold/compilers.json" --out "$out/again" >"$out/again.txt"
python3 - "$out" <<'END'
import json, sys
rows = json.load(open(sys.argv[1] + "/again/compilers.json"))["rows"]
judged = [r for r in rows if r["ratio"]]
near = sum(abs(r["ratio"] - 1) <= 0.02 for r in judged)
same = sum(r["verdict"] == "same" for r in judged)
print(f"{near} of {len(judged)} cells within 2 %, {same} verdicts are same")
END

echo "== one cell: at most 4 s"
time "$kiln" compilers --cc gcc-12 --opt O2 --variant default --no-cache

echo "== planted: 3 % must be found, and nothing where nothing is planted"
cat >"$out/planted.c" <<'END'
/* kiln-subject: checksum64 work */
#include <stddef.h>
#include <stdint.h>
uint64_t work(const uint8_t *p, size_t n)
{
	uint64_t x = p[0] | 1;
	for (size_t i = 0; i < n; i += 4)
		x *= 0x9e3779b97f4a7c15u;
#ifdef PLANTED
	/* 4 % more multiplications, undone so that the answer stays; a third of them hides behind the next message */
	for (size_t i = 0; i < n / 4 / 50; i++) {
		x *= 0x9e3779b97f4a7c15u;
		__asm__("" : "+r"(x)); /* or they would cancel */
		x *= 0xf1de83e19937733du;
		__asm__("" : "+r"(x));
	}
#endif
	return x;
}
END
printf '#!/bin/sh\nexec gcc-12 -DPLANTED "$@"\n' >"$out/cc-planted"
printf '#!/bin/sh\n# the same\nexec gcc-12 "$@"\n' >"$out/cc-same"
chmod +x "$out/cc-planted" "$out/cc-same"
for which in planted same; do
	status=0
	"$kiln" compilers --cc "$out/cc-$which" --baseline gcc-12 --max-regression 1 --opt O1,O2,O3,Os --variant default \
		--subject "$out/planted.c" >"$out/$which.txt" || status=$?
	echo "$which: exit status $status"
	grep -E 'against|REGRESSION' "$out/$which.txt" || true
done

if [ -n "$tree" ]; then
	echo "== tree"
	"$kiln" compilers --cc "$cc" --tree "$tree" --subject aes-generic,crypto/aes_generic.c,lib/crypto/aes.c \
		--opt O2 --variant default,no-object-flags,ubsan,ubsan-tree --out "$out/tree" | tee "$out/tree.txt"
fi
echo "== all compilers"
"$kiln" compilers --cc "$cc" --variant default,patched,ubsan,patched+ubsan,ubsan-tree,asan --out "$out/all" |
	tee "$out/all.txt"
