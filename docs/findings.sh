#!/bin/sh
# The records that docs/FINDINGS.md stands on, on a quiet machine, in some 20 minutes:
#	docs/findings.sh DIR [TREE [CONFIG]]
# TREE: a kernel source tree; CONFIG: a .config of it beside Kiln's choice, with mitigations.
# Writes DIR/NAME.json for each. KILN names the program, else it is the one on PATH. What fails is
# named on stderr and leaves no record.
set -u
out=$1
tree=${2:-}
config=${3:-}
kiln=${KILN:-kiln}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
prefix=

# record NAME ARGUMENTS...
record() {
	name=$1
	shift
	echo "$name: ${prefix:+$prefix }kiln $*" >&2
	rm -rf "$work/out"
	if $prefix "$kiln" "$@" --out "$work/out" >/dev/null 2>"$work/err"; then
		mv "$work"/out/*.json "$out/$name.json"
	else
		echo "$name: failed: $(tail -n 1 "$work/err")" >&2
		failed=1
	fi
}

# What each way of using SIMD from softirqs costs.
record overhead fpu overhead --policy legacy,bh-off,nested,preemptible
record policies fpu
if [ -n "$tree" ]; then
	record tree-overhead fpu overhead --policy "legacy,bh-off,tree:$tree" --config "kiln${config:+,$config}"
fi

# Nested sections, and what the asynchronous fallback does to IPsec.
record step fpu prove --policy legacy,bh-off,nested,nested-v1,preemptible
record breakpoints fpu prove breakpoint --load xts-4096
record esp ipsec
record esp-cfs ipsec --policy legacy,bh-off --scheduler cfs-6.1
# The published rate: by the cipher alone, and on a core that is nearly full.
for scheduler in cfs-6.1 eevdf-6.12 eevdf-7.3; do
	record "esp-220k-$scheduler" ipsec --policy legacy,bh-off --packet-rate 220000 --seconds 10 \
		--scheduler $scheduler
	record "esp-full-core-$scheduler" ipsec --policy legacy,bh-off --packet-rate 220000 --seconds 10 \
		--scheduler $scheduler --stack-ns 4000
done

# Bytes for an FPU section.
record budget budget --mode unbounded,page,fixed,class,calibrated,clocked --seconds 0.5 \
	crc32c crct10dif polyval ghash poly1305 nhpoly1305 sha1 sha256 sha512 sm3 'xts(aes)' 'gcm(aes)'

# Compilers.
cc=
for name in gcc-11 gcc-12 clang-13 clang-14 clang-15 clang-16 clang-19 clang-22; do
	command -v "$name" >/dev/null && cc="$cc${cc:+,}$name"
done
record compilers compilers --cc "${cc:-auto}" --variant default,patched,ubsan,patched+ubsan,ubsan-tree,asan

# The control queue.
record ctrlq ctrlq --session akcipher
record ctrlq-late-yield ctrlq --session akcipher --mode poll --workers 8 --ctrl inline --spins 32768
# Driver and device on one core.
prefix='taskset -c 0'
record ctrlq-one-core ctrlq --session akcipher --mode poll,wait --workers 8 --ctrl inline
exit $failed
