#!/usr/bin/env bash
# Does what a new user does, on a minimal system: a fresh root of Debian 12, made by debootstrap.
#
#	packaging/bare.sh deb      the package: installed, run, removed, nothing left behind
#	packaging/bare.sh dkms     the module's package: built by DKMS for Debian's kernel, removed, nothing left behind
#	packaging/bare.sh clone    a clean clone: the README's first command, cargo run --release -- --quick
#	packaging/bare.sh test     the same clone: its second, cargo test --release (a quarter of an hour)
#
# Several may be given; the default is deb clone. Needs root, debootstrap and the network, for packages
# and crates. Rust is this machine's own, which is the same as rustup's. KILN_BARE names the directory of
# the root; by default, a temporary one is used. Not part of .ci/run, because it takes minutes and downloads
# a lot.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8
parts=${*:-deb clone}
suite=bookworm

fail() {
	echo "bare.sh: $*" >&2
	exit 1
}

# said NAME START: prints that a step is done, and how long it took.
said() {
	printf '==> ok: %s (%d s)\n' "$1" $((SECONDS - $2))
}

[ "$(id -u)" -eq 0 ] || fail "a root is made by root only"
command -v debootstrap >/dev/null || fail "no debootstrap: apt-get install debootstrap"

keep=${KILN_BARE:-}
root=${keep:-$(mktemp -d /var/tmp/kiln-bare.XXXXXX)}
[ -n "$keep" ] || trap 'rm -rf --one-file-system "$root"' EXIT

# inside COMMAND: runs a command with a shell in the root, with nothing of this machine but its kernel,
# network and Rust. Its mounts and all processes that it leaves behind end with it.
inside() {
	unshare --mount --pid --fork --kill-child --uts bash -euc '
		root=$1
		mount --make-rprivate /
		mount -t proc proc "$root/proc"
		mount -t sysfs -o ro sysfs "$root/sys"
		mount --rbind /dev "$root/dev"
		mkdir -p "$root/opt/rust"
		mount --bind -o ro "$2" "$root/opt/rust"
		exec chroot "$root" /usr/bin/env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 \
			DEBIAN_FRONTEND=noninteractive \
			PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			bash -euo pipefail -c "$3"' inside "$root" "$(rustc --print sysroot)" "$1"
}

if [ ! -e "$root/etc/debian_version" ]; then
	start=$SECONDS
	debootstrap --variant=minbase "$suite" "$root" >"$root.log" 2>&1 || {
		tail -n 5 "$root.log" >&2
		fail "debootstrap: $root.log"
	}
	rm "$root.log"
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	# Updated kernels of a suite are in its security archive.
	echo "deb http://deb.debian.org/debian-security $suite-security main" >>"$root/etc/apt/sources.list"
	said "a bare root of Debian $suite" "$start"
fi

# list_files: all files but those that Debian's own packages change. DKMS keeps the signing keys that it made.
list_files() {
	inside 'find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /opt/rust \
		-o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/log \
		-o -path "/var/lib/dkms/mok.*" \) -prune \
		-o -print | sort'
}

# The package, as used by someone who has only the file.
deb() {
	local start=$SECONDS package
	package=$(packaging/deb.sh "$root/tmp")
	ls -l "$package"
	package=/tmp/${package##*/}
	said "the package" "$start"

	start=$SECONDS
	# Install man's packages first, so that only the package's own files are compared.
	inside "apt-get update -q
		apt-get install -q -y --no-install-recommends man-db bash-completion
		dpkg --configure -a" >/dev/null
	list_files >"$root/tmp/before"
	inside "apt-get install -q -y --no-install-recommends $package" | tail -n 3
	said "installed" "$start"

	start=$SECONDS
	inside '
		step() { printf "\n\$ %s\n" "$*"; "$@" >/tmp/said || { cat /tmp/said; echo "failed: $*" >&2; exit 1; }
			tail -n 6 /tmp/said; }
		export XDG_CACHE_HOME=/tmp/cache
		# Without Rust.
		PATH=${PATH#*:}
		cd /tmp
		step kiln --version
		step kiln --quick
		step kiln list
		step kiln speed --quick
		step kiln test --quick
		step kiln budget sha256 --quick --seconds 0.01
		step kiln ctrlq --quick --seconds 0.1
		rm -f kiln.sock
		kiln serve --socket kiln.sock --log-level warn &
		for n in $(seq 100); do [ ! -S kiln.sock ] || break; sleep 0.1; done
		step kiln virtio-check --socket kiln.sock
		kill %1
		wait
		# Without a compiler, the error says what provides one.
		status=0
		kiln compilers --quick 2>/tmp/said || status=$?
		cat /tmp/said
		[ "$status" -eq 3 ]
		grep -q "apt-get install" /tmp/said
		for page in kiln kiln-speed kiln-linux-boot; do
			man -P cat "$page" >/tmp/said
			[ "$(wc -l </tmp/said)" -gt 30 ]
		done
		. /usr/share/bash-completion/bash_completion
		. /usr/share/bash-completion/completions/kiln
		complete -p kiln
	'
	said "used" "$start"

	start=$SECONDS
	inside 'apt-get purge -q -y kiln >/dev/null
		rm -rf /tmp/cache'
	list_files >"$root/tmp/after"
	diff "$root/tmp/before" "$root/tmp/after" || fail "the package left something behind"
	said "removed, and nothing is left" "$start"

	start=$SECONDS
	# With the recommended packages, as most users install it: with a compiler.
	inside "apt-get install -q -y $package >/dev/null"
	inside 'export PATH=${PATH#*:} XDG_CACHE_HOME=/tmp/cache
		kiln compilers --quick --cc gcc --opt O2 | tail -n 12'
	said "used with a compiler" "$start"
}

# The module's package: from apt-get to the built module, then removed.
dkms() {
	local start=$SECONDS package complaints
	package=$(packaging/dkms.sh "$root/tmp")
	ls -l "$package"
	if command -v lintian >/dev/null; then
		complaints=$(lintian --allow-root --display-info "$package" 2>&1) || true
		[ -z "$complaints" ] || fail "lintian: $complaints"
		said "lintian is silent" "$start"
	fi
	package=/tmp/${package##*/}
	said "the package" "$start"

	start=$SECONDS
	inside "apt-get update -q
		apt-get install -q -y --no-install-recommends dkms ${KILN_HEADERS:-linux-headers-amd64}" >/dev/null
	# Without a kernel's package, DKMS is the first to run depmod there.
	inside 'for modules in /lib/modules/*; do depmod "${modules##*/}"; done'
	list_files >"$root/tmp/before"
	said "DKMS and headers" "$start"

	start=$SECONDS
	inside "apt-get install -q -y --no-install-recommends $package"
	said "installed" "$start"

	start=$SECONDS
	inside 'dkms status -m kiln-crypto
		for module in /lib/modules/*/updates/dkms/kiln.ko; do
			modinfo -F vermagic "$module"
			modinfo -F parm "$module" | sort
		done'
	if inside 'modinfo -F parm /lib/modules/*/updates/dkms/kiln.ko' | grep -E '^(check|unprepared|(nested|user|live)_unsaved):'; then
		fail "the installed module has a parameter of the tests"
	fi
	said "looked at" "$start"

	start=$SECONDS
	inside 'apt-get purge -q -y kiln-crypto-dkms >/dev/null'
	list_files >"$root/tmp/after"
	diff "$root/tmp/before" "$root/tmp/after" || fail "the package left something behind"
	said "removed, and nothing is left" "$start"
}

# The repository, as used by someone who has only its address.
clone() {
	local start=$SECONDS
	inside "apt-get update -q
		apt-get install -q -y --no-install-recommends gcc libc6-dev ca-certificates git" >/dev/null
	# A proxy that inspects this machine's connections also inspects those of the root.
	cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
	rm -rf "$root/root/kiln"
	git clone -q --no-hardlinks . "$root/root/kiln"
	said "what README.md says, and the clone" "$start"
	start=$SECONDS
	inside 'cd /root/kiln && cargo fetch --locked' 2>&1 | tail -n 1
	said "crates downloaded" "$start"
	start=$SECONDS
	inside 'cd /root/kiln && cargo build --release' 2>&1 | tail -n 1
	said "cargo build --release, from clean, $(nproc) cores" "$start"
	start=$SECONDS
	inside 'cd /root/kiln && cargo run --release -- --quick'
	said "cargo run --release -- --quick" "$start"
}

tests() {
	local start=$SECONDS
	[ -d "$root/root/kiln/target" ] || clone
	inside 'cd /root/kiln && cargo test --release --no-fail-fast' 2>&1 | grep -v '^test .* ok$'
	said "cargo test --release" "$start"
}

for part in $parts; do
	case $part in
	deb | dkms | clone) "$part" ;;
	test) tests ;;
	*) fail "'$part' is not one of deb, dkms, clone, test" ;;
	esac
done
