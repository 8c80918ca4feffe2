#!/bin/sh
# Pictures of a report for the documentation: docs/screenshots.sh REPORT.html
# Needs chromium, and Pillow to make the files small: apt-get install chromium python3-pil
set -eu
page=$(realpath "${1:?a report (HTML) is wanted}")
docs=$(dirname "$(realpath "$0")")
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shot NAME WIDTH HEIGHT [HTML-ATTRIBUTES]: a window of that size, in CSS pixels.
shot() {
	sed "s|<html lang=\"en\">|<html lang=\"en\" ${4:-}>|" "$page" >"$dir/$1.html"
	"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$dir/profile" \
		--window-size="$2,$3" --screenshot="$dir/$1.png" "file://$dir/$1.html" >/dev/null 2>&1
	python3 - "$dir/$1.png" "$docs/$1.png" <<-'PY'
		import sys
		from PIL import Image
		image = Image.open(sys.argv[1]).convert("RGB")
		image.quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(sys.argv[2], optimize=True)
	PY
	ls -l "$docs/$1.png"
}

shot report-wide 1280 1500 'data-theme="light"'
shot report-dark 1280 1500 'data-theme="dark"'

# A window is never narrower than 500; the page inside one is.
inner=$(python3 -c 'import html, sys; print(html.escape(open(sys.argv[1]).read(), quote=True))' "$page")
cat >"$dir/frame.html" <<EOF
<!DOCTYPE html><html lang="en"><meta charset="utf-8"><body style="margin:0"><iframe style="border:0;width:390px;height:2200px" srcdoc="$inner"></iframe>
EOF
page=$dir/frame.html
shot report-narrow 390 2200
