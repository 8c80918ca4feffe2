#!/bin/sh
# Figures of direct calls against the same objects of the tree in a bare C program.
#   docs/bare.sh TREE [KILN]
set -eu
tree=$1
kiln=${2:-kiln}
here=$(dirname "$0")
lens="512 4096"
names=aesni_ecb_enc,aesni_cbc_dec,aes_ctr_enc_256_avx_by8,aes_xts_encrypt_aesni_avx,aes_xts_encrypt_vaes_avx10_512
names=$names,sha256_ni_transform,sha512_transform_rorx,chacha_8block_xor_avx2,serpent_ecb_enc_16way,crc_pcl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$kiln" speed --tree "$tree" --level primitive --peers none --op encrypt,decrypt,digest --impl $names \
    --len "$(echo $lens | tr ' ' ,)" --json >"$work/kiln.json"
built=$(sed -n 's/.*"built in \([^"]*\)".*/\1/p' "$work/kiln.json")/build/arch/x86/crypto
objects=
for o in aesni-intel_asm aes_ctrby8_avx-x86_64 aes-xts-avx-x86_64 sha256_ni_asm sha512-avx2-asm chacha-avx2-x86_64 \
    serpent-avx2-asm_64 crc32c-pcl-intel-asm_64; do
    objects="$objects $built/$o.o"
done
# Code of a kernel lies below 2 GiB.
cc -O2 -no-pie -w -Wl,-z,noexecstack -o "$work/bare" "$here/bare.c" $objects
"$work/bare" $lens >"$work/bare.txt"
python3 - "$work" <<'END'
import json, sys
work = sys.argv[1]
rows = {(r["impl"], r["len"], r["op"]): r["cycles_per_op"] for r in json.load(open(work + "/kiln.json"))["rows"]}
worst = 0
print(f"{'symbol':32} {'bytes':>5} {'bare C':>9} {'kiln':>9} {'kiln/bare':>9}")
for line in open(work + "/bare.txt"):
    name, length, bare = line.split()
    op = "decrypt" if "_dec" in name else "digest" if name[0] in "c" and "crc" in name or "transform" in name else "encrypt"
    kiln = rows.get((name, int(length), op))
    if kiln is None:
        print(f"{name:32} {length:>5} {float(bare):9.1f}  no figure of kiln's")
        continue
    worst = max(worst, abs(kiln / float(bare) - 1))
    print(f"{name:32} {length:>5} {float(bare):9.1f} {kiln:9.1f} {kiln / float(bare):9.3f}")
print(f"largest difference: {100 * worst:.1f} %")
END
