# Shared parts of the scripts that build Debian packages. They source it in the repository's root.
# With the same compilers, the same commit results in the same bytes.
export LC_ALL=C TZ=UTC
umask 022

# need TOOL:PACKAGE...: exits unless each tool is installed.
need() {
	local tool
	for tool; do
		command -v "${tool%:*}" >/dev/null || {
			echo "${0##*/}: ${tool%:*} is not installed: apt-get install ${tool#*:}" >&2
			exit 3
		}
	done
}

need dpkg-deb:dpkg git:git
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
to=$(realpath -m "${1:-$target/debian}")
version=$(cargo pkgid -p kiln | sed 's/.*[#@]//')
# The maintainer, from Debian's variables or from the last commit.
maintainer="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

# write_changelog PACKAGE
write_changelog() {
	mkdir -p "$root/usr/share/doc/$1"
	printf '%s (%s) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n' "$1" "$version" \
		"Version $version, commit $(git log -1 --format=%h)." "$maintainer" \
		"$(date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$root/usr/share/doc/$1/changelog.gz"
}

# fill_in FILE [SED ARGUMENTS]: prints a template with the values that all packages share filled in.
fill_in() {
	sed -e "s|@VERSION@|$version|" -e "s|@MAINTAINER@|$maintainer|" \
		-e "s|@SIZE@|$(du -k -s --apparent-size "$root/usr" | cut -f 1)|" "${@:2}" "$1"
}

# pack PACKAGE ARCHITECTURE: adds checksums, sets all times, builds the package and prints its name.
pack() {
	local package=$to/${1}_${version}_$2.deb
	(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) \
		>"$root/DEBIAN/md5sums"
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	mkdir -p "$to"
	dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >&2
	echo "$package"
}
