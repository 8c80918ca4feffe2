#!/usr/bin/env bash
# Builds the Debian package of the module for kernels before 6.15, which DKMS builds where it is
# installed, and prints its name:
#
#	packaging/dkms.sh [DIR]
#
# DIR/kiln-crypto-dkms_VERSION_all.deb, by default in target/debian. docs/MODULE.md is its manual.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/package.sh

cargo build --release --locked >&2
"$target/release/kiln" linux build --sources "$root/usr/src/kiln-crypto-$version" >&2
find "$root" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +

doc=$root/usr/share/doc/kiln-crypto-dkms
install -D -m 644 packaging/copyright "$doc/copyright"
install -D -m 644 docs/MODULE.md "$doc/MODULE.md"
write_changelog kiln-crypto-dkms

mkdir "$root/DEBIAN"
fill_in packaging/dkms/control >"$root/DEBIAN/control"
for script in postinst prerm; do
	fill_in "packaging/dkms/$script" >"$root/DEBIAN/$script"
	chmod 755 "$root/DEBIAN/$script"
done
pack kiln-crypto-dkms all
