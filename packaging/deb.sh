#!/usr/bin/env bash
# Builds a Debian package of the release binary and prints its name:
#
#	packaging/deb.sh [DIR]
#
# DIR/kiln_VERSION_ARCHITECTURE.deb, by default in target/debian. Uses dpkg-deb instead of cargo-deb,
# which would have to be built first and would only add the search for libraries; dpkg-shlibdeps does that.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/package.sh
need dpkg-shlibdeps:dpkg-dev strip:binutils

cargo build --release --locked >&2
arch=$(dpkg --print-architecture)
doc=$root/usr/share/doc/kiln
kiln=$root/usr/bin/kiln
install -D "$target/release/kiln" "$kiln"
strip --remove-section=.comment --remove-section=.note "$kiln"

# The program itself writes the manual and the completions.
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

# With the same paths as in the repository, so that links between them work.
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
write_changelog kiln

mkdir "$root/DEBIAN" "$work/debian"
printf 'Source: kiln\n\nPackage: kiln\nArchitecture: %s\n' "$arch" >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$kiln" | sed 's/^shlibs:Depends=//')
fill_in packaging/control -e "s|@ARCH@|$arch|" -e "s|@DEPENDS@|$depends|" >"$root/DEBIAN/control"
for script in postinst prerm postrm; do
	install -m 755 "packaging/$script" "$root/DEBIAN/$script"
done

pack kiln "$arch"
