#!/usr/bin/env bash
# Builds a Debian package of the release binary and prints its name:
#
#	packaging/deb.sh [DIR]
#
# DIR/kiln_VERSION_ARCHITECTURE.deb, by default in target/debian. By dpkg-deb alone: the one thing that
# cargo-deb would do besides is to find the libraries, which is what dpkg-shlibdeps is for, and it would
# have to be built first. The same commit gives the same bytes, by the same compilers.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022

for tool in dpkg-deb:dpkg dpkg-shlibdeps:dpkg-dev strip:binutils git:git; do
	command -v "${tool%:*}" >/dev/null || {
		echo "deb.sh: ${tool%:*} is not installed: apt-get install ${tool#*:}" >&2
		exit 3
	}
done

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
to=$(realpath -m "${1:-$target/debian}")
cargo build --release --locked >&2
version=$(cargo pkgid -p kiln | sed 's/.*[#@]//')
arch=$(dpkg --print-architecture)
# A package is somebody's: by Debian's variables, or by who made the last commit.
maintainer="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
doc=$root/usr/share/doc/kiln
kiln=$root/usr/bin/kiln
install -D "$target/release/kiln" "$kiln"
strip --remove-section=.comment --remove-section=.note "$kiln"

# The manual and the completions are the program's own.
"$kiln" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*
completions() {
	mkdir -p "$root/usr/share/$2"
	"$kiln" completions "$1" >"$root/usr/share/$2/$3"
}
completions bash bash-completion/completions kiln
completions zsh zsh/vendor-completions _kiln
completions fish fish/vendor_completions.d kiln.fish

install -D -m 644 docs/kiln-serve.service "$root/lib/systemd/system/kiln-serve.service"
install -D -m 644 packaging/50-kiln.json "$root/usr/share/qemu/vhost-user/50-kiln.json"
install -D -m 755 packaging/kiln-vhost-user "$root/usr/libexec/kiln-vhost-user"
install -D -m 644 packaging/slurm/site.conf "$root/usr/share/kiln/slurm/site.conf"
for script in kiln-fleet kiln-cluster; do
	install -D -m 755 packaging/slurm/$script "$root/usr/share/kiln/slurm/$script"
	ln -s ../share/kiln/slurm/$script "$root/usr/bin/$script"
done
install -D -m 644 packaging/sysusers.conf "$root/usr/lib/sysusers.d/kiln.conf"

# As they lie in the repository, so that links between them hold.
git ls-files -z -- ':(glob)*.md' ':(glob)docs/**/*.md' ':(glob)docs/**/*.json' ':(glob)docs/**/*.svg' \
	':(glob)docs/**/*.png' |
	while IFS= read -r -d '' file; do
		install -D -m 644 "$file" "$doc/$file"
	done
{
	sed '/^$/Q' packaging/copyright
	echo 'Comment:'
	echo ' The program contains these crates, under the licences that they name:'
	cargo tree --locked -p kiln -e normal --prefix none --format '{p} ({l})' |
		grep -v '^kiln' | sed 's/ (\*)$//; s/ (proc-macro)//; s/^/  /' | sort -u
	sed -n '/^$/,$p' packaging/copyright
} >"$doc/copyright"
printf 'kiln (%s) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n' "$version" \
	"Version $version, commit $(git log -1 --format=%h)." "$maintainer" \
	"$(date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"

mkdir "$root/DEBIAN" "$work/debian"
printf 'Source: kiln\n\nPackage: kiln\nArchitecture: %s\n' "$arch" >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$kiln" | sed 's/^shlibs:Depends=//')
sed -e "s|@VERSION@|$version|" -e "s|@ARCH@|$arch|" -e "s|@MAINTAINER@|$maintainer|" \
	-e "s|@DEPENDS@|$depends|" -e "s|@SIZE@|$(du -k -s --apparent-size "$root/usr" | cut -f 1)|" \
	packaging/control >"$root/DEBIAN/control"
for script in postinst prerm postrm; do
	install -m 755 "packaging/$script" "$root/DEBIAN/$script"
done
(cd "$root" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$to"
package=$to/kiln_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >&2
echo "$package"
