//! Writes the directory for a compiler bug report. Anyone with two compilers and a shell can use
//! the directory to reproduce the bug without Kiln.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kiln_kbuild::reason;
use kiln_measure::{ratio, Ratio};
use kiln_question::{replace, Error};

use super::answer::expected;
use super::bench::Messages;
use super::build::{harness_files, preprocess, Refused};
use super::cell::{Abi, Cell};
use super::culprit::Culprit;
use super::explain::{Explained, Seen, ALIKE};
use super::subject::{Flags, Source, HARNESS};
use super::toolchain::Toolchain;
use super::variant::Variant;

/// Flags that only the preprocessor uses. They are left out because the files in the directory are
/// already preprocessed.
const OF_PREPROCESSING: [&str; 4] = ["-I", "-D", "-U", "-fmacro-prefix-map"];

/// Summary of the directory that [`write`] has filled.
pub(super) struct Written {
    /// Which of the two builds is slower, and by how much.
    pub verdict: String,
    /// Names of the files in the directory.
    pub files: Vec<String>,
}

/// A line of every README.md that this module writes. `refuse_foreign` looks for it.
const FIRST_STEP: &str = "./build.sh          # makes ./bad and ./good";

/// Returns an error if the directory contains a README.md that Kiln did not write. Without
/// this check, [`write`] would overwrite that file.
fn refuse_foreign(dir: &Path) -> Result<(), Error> {
    match fs::read(dir.join("README.md")) {
        Ok(text) if !String::from_utf8_lossy(&text).contains(FIRST_STEP) => Err(Error::input(format!(
            "--out '{}' already has a README.md that Kiln did not write: name an empty or new directory",
            dir.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes all files needed to reproduce `found` to the directory `dir`.
pub(super) fn write(
    dir: &Path,
    found: &Explained,
    len: usize,
    seed: u64,
) -> Result<Written, Error> {
    if found.own.has_code_of(&found.other) {
        return Err(Error::input(format!(
            "'{}' and '{}' have the same machine code, so neither is slower: name another cell with --against",
            found.own.cell, found.other.cell
        )));
    }
    fs::create_dir_all(dir).map_err(|e| {
        Error::input(format!(
            "cannot use '{}': {e}: name a directory you may write to",
            dir.display()
        ))
    })?;
    refuse_foreign(dir)?;
    let (bad, good) = match found.own.cycles_per_byte >= found.other.cycles_per_byte {
        true => (&found.own, &found.other),
        false => (&found.other, &found.own),
    };
    let cell = &bad.cell;
    let put = |name: &str, text: &[u8]| replace::write(&dir.join(name), text);
    for (name, text) in HARNESS {
        let wanted = harness_files(&cell.subject).contains(&name) || name == "harness.h";
        // kiln.c includes headers from kernel/, so its preprocessed form is written instead.
        if wanted && name != "kiln.c" {
            put(name, text.as_bytes())?;
        }
    }
    let mut files = Vec::new();
    for (n, source) in cell.subject.sources.iter().enumerate() {
        let name = match n {
            0 => "subject.i".to_string(),
            n => format!("subject{n}.i"),
        };
        put(&name, &preprocessed(&cell.cc, cell, source)?)?;
        files.push(name);
    }
    let mut support = Vec::new();
    for (n, source) in cell.subject.support.iter().enumerate() {
        let name = format!("support{n}.i");
        put(&name, &preprocessed(&cell.cc, cell, source)?)?;
        support.push(name);
    }
    if cell.subject.convention.name == "kiln" {
        put("kiln.i", &adapter(cell)?)?;
        support.push("kiln.i".to_string());
    }
    let mut objects = Vec::new();
    for object in &cell.subject.objects {
        let name = object
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let bytes =
            fs::read(object).map_err(|e| Error::lacks(format!("{}: {e}", object.display())))?;
        put(&name, &bytes)?;
        objects.push(name);
    }
    let messages = Messages::new(seed, len);
    let answer = expected(&cell.subject, seed, len, messages.count)?;
    let facts = Facts {
        bad,
        good,
        files: &files,
        support: &support,
        objects: &objects,
        messages,
        answer,
        ratio: bad.cycles_per_byte / good.cycles_per_byte,
        measured: ratio(&bad.series, &good.series),
    };
    for (name, text) in [
        ("settings.sh", facts.settings()),
        ("build.sh", BUILD.to_string()),
        ("run.sh", RUN.to_string()),
        ("interesting.sh", INTERESTING.to_string()),
        ("count.sh", COUNT.to_string()),
        ("README.md", facts.readme(found)),
    ] {
        put(name, text.as_bytes())?;
        if name.ends_with(".sh") {
            let mode = fs::Permissions::from_mode(0o755);
            let _ = fs::set_permissions(dir.join(name), mode);
        }
    }
    let mut names: Vec<String> = fs::read_dir(dir)
        .map_err(|e| Error::input(format!("{}: {e}", dir.display())))?
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(Written {
        verdict: facts.verdict(),
        files: names,
    })
}

/// Returns whether the difference between two builds is too small to report (below 2%) or may be
/// noise (the interval of the measured ratio includes 1). `best` is the ratio of the best rounds.
fn is_alike(best: f64, measured: Option<Ratio>) -> bool {
    best < ALIKE || measured.is_some_and(|m| m.ratio < ALIKE || m.low <= 1.0)
}

fn line(cc: &Toolchain, cell: &Cell, source: &Source) -> Result<Vec<String>, Error> {
    let flags = cell.variant.flags(cc).map_err(Error::input)?;
    Ok(source.arguments(cc, &cell.opt, cell.abi, &cell.variant, &flags))
}

fn preprocessed(cc: &Toolchain, cell: &Cell, source: &Source) -> Result<Vec<u8>, Error> {
    let of = |refused: Refused| Error::input(refused.reason);
    preprocess(cc, source, &line(cc, cell, source)?).map_err(of)
}

/// Returns the preprocessed source of the adapter (`kiln.c`), which looks up an implementation in
/// the tables of `kernel/`.
fn adapter(cell: &Cell) -> Result<Vec<u8>, Error> {
    let Some(Flags::Kernel { dir }) = cell.subject.sources.first().map(|s| &s.flags) else {
        return Err(Error::input("no headers for the adapter"));
    };
    let scratch = super::store::Store::open()?.scratch()?;
    let file = scratch.path().join("kiln.c");
    let text = HARNESS
        .iter()
        .find(|(n, _)| *n == "kiln.c")
        .map_or("", |(_, t)| t);
    fs::write(&file, text).map_err(|e| Error::lacks(format!("{}: {e}", file.display())))?;
    let mut cc = cell.cc.command();
    cc.args(["-E", "-P", "-ffreestanding", "-I"])
        .arg(dir.join("include"));
    cc.args(
        cell.subject
            .convention
            .defines
            .iter()
            .map(|d| format!("-D{d}")),
    );
    let output = cc.arg(&file).output();
    match output {
        Ok(o) if o.status.success() => Ok(o.stdout),
        Ok(o) => Err(Error::input(format!(
            "the adapter cannot be preprocessed: {}",
            reason(&String::from_utf8_lossy(&o.stderr))
        ))),
        Err(e) => Err(Error::lacks(format!("{}: {e}", cell.cc.name))),
    }
}

struct Facts<'a> {
    bad: &'a Seen,
    good: &'a Seen,
    files: &'a [String],
    support: &'a [String],
    objects: &'a [String],
    messages: Messages,
    answer: Option<u64>,
    /// Cycles of the bad build divided by cycles of the good build, each taken from its best round.
    ratio: f64,
    /// The same ratio, but computed as the median over all rounds; `None` if there were too few
    /// rounds.
    measured: Option<Ratio>,
}

impl Facts<'_> {
    /// Returns the build flags that still have an effect on preprocessed files.
    fn flags(seen: &Seen) -> String {
        let cell = &seen.cell;
        let all = line(&cell.cc, cell, &cell.subject.sources[0]).unwrap_or_default();
        let mut words = all.into_iter();
        let mut flags: Vec<String> = Vec::new();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-isystem" | "-include" | "-I" | "-D" => drop(words.next()),
                "-nostdinc" => {}
                w if OF_PREPROCESSING.iter().any(|p| w.starts_with(p)) => {}
                _ => flags.push(word),
            }
        }
        flags.join(" ")
    }

    fn link(seen: &Seen) -> String {
        let cell = &seen.cell;
        let flags = cell.variant.flags(&cell.cc).unwrap_or_default();
        let mut link = Variant::link_flags(&flags);
        link.extend(cell.cc.known(&["-no-pie"]));
        link.join(" ")
    }

    /// Returns a sentence that states the difference, with the ratio and its interval.
    fn verdict(&self) -> String {
        let (bad, good) = (&self.bad.cell, &self.good.cell);
        let ratio = match self.measured {
            Some(m) => format!("{:.3} times ({:.3} to {:.3})", m.ratio, m.low, m.high),
            None => format!("{:.3} times (too few rounds for an interval)", self.ratio),
        };
        match is_alike(self.ratio, self.measured) {
            true => format!(
                "no difference: {bad} takes {ratio} the cycles of {good}, which is below 2 % or within the noise: name \
                 another cell with --against, or repeat it on a quiet machine"
            ),
            false => format!("{bad} is the bad build: it takes {ratio} the cycles of the good one, {good}"),
        }
    }

    fn settings(&self) -> String {
        let Messages { seed, len, count } = self.messages;
        let convention = &self.bad.cell.subject.convention;
        let defines: Vec<String> = convention
            .defines
            .iter()
            .map(|d| format!("-D{d}"))
            .collect();
        let width = match self.bad.cell.abi {
            Abi::Bits64 => "",
            Abi::Bits32 => "-m32",
        };
        let mut harness: Vec<&str> = harness_files(&self.bad.cell.subject);
        harness.retain(|f| *f != "kiln.c");
        let program = |seen: &Seen| seen.cell.cc.words().join(" ");
        let name = |seen: &Seen| {
            let words = program(seen);
            match words.rsplit('/').next() {
                // Programs in /usr/bin can be called without their directory.
                Some(name) if words.starts_with("/usr/bin/") => name.to_string(),
                _ => words,
            }
        };
        // A reduced test case must retain at least half of the difference.
        let keep = 1.0 + (self.ratio - 1.0) / 2.0;
        format!(
            "# What build.sh, run.sh and interesting.sh share. Set CC_BAD, CC_GOOD or HARNESS_CC to use others.\n\
             : \"${{CC_BAD:={}}}\" \"${{CC_GOOD:={}}}\" \"${{HARNESS_CC:=cc}}\"\n\
             BAD_FLAGS='{}'\n\
             GOOD_FLAGS='{}'\n\
             BAD_LINK='{}'\n\
             GOOD_LINK='{}'\n\
             FILES='{}'\n\
             HARNESS='{}'\n\
             SUPPORT='{}'\n\
             OBJECTS='{}'\n\
             DEFINES='{}'\n\
             WIDTH='{width}'\n\
             # seed, bytes of a message, messages\n\
             MESSAGES='{seed} {len} {count}'\n\
             ANSWER='{}'\n\
             # how many times as slow the bad build must stay, when a file is reduced\n\
             KEEP={keep:.3}\n",
            name(self.bad),
            name(self.good),
            Facts::flags(self.bad),
            Facts::flags(self.good),
            Facts::link(self.bad),
            Facts::link(self.good),
            self.files.join(" "),
            harness.join(" "),
            self.support.join(" "),
            self.objects.join(" "),
            defines.join(" ").replace('\'', "'\\''"),
            self.answer.map_or(String::new(), |a| format!("{a:016x}")),
        )
    }

    fn readme(&self, found: &Explained) -> String {
        let (bad, good) = (self.bad, self.good);
        let side = |name: &str, seen: &Seen| {
            format!(
                "| {name} | `{}` | {:.2} | {} |\n",
                seen.cell,
                seen.cycles_per_byte,
                seen.built
                    .facts
                    .text_bytes
                    .map_or("-".to_string(), |n| n.to_string())
            )
        };
        let of = |seen: &Seen| {
            seen.code.as_ref().map_or(String::new(), |c| {
                format!(
                    "| `{}` | {} | {} | {} | {} | {} |\n",
                    seen.cell, c.instructions, c.indexed_loads, c.spills, c.reloads, c.calls
                )
            })
        };
        let culprit = match &found.culprit {
            Some(Culprit::Alone(flag)) => format!(
                "\n`{flag}` put to the slow level alone makes the difference{}.\n",
                found
                    .cured
                    .map_or(String::new(), |c| format!(": {c:.2} cycles a byte with it"))
            ),
            Some(Culprit::With(flag, _)) => {
                format!("\n`{flag}` makes the difference, with the switches before it.\n")
            }
            _ => String::new(),
        };
        let subject = &bad.cell.subject;
        let (title, remark) = match is_alike(self.ratio, self.measured) {
            true => (
                "has no measurable difference between two builds".to_string(),
                ". So `bad` and `good` are only names here, and `interesting.sh` cannot distinguish the two",
            ),
            false => (
                format!("takes {:.2} times as many cycles in one build as in the other", self.ratio),
                "",
            ),
        };
        let verdict = self.verdict();
        format!(
            "# {} {title}\n\n\
             Measured: {verdict}{remark}.\n\n\
             `{}` ({}), function `{}`, core cycles a byte of messages of {} bytes:\n\n\
             | build | cell | cycles a byte | bytes of code |\n|---|---|---:|---:|\n{}{}{culprit}\n\
             The hot stretch, counted statically:\n\n\
             | cell | instructions | indexed loads | spills | reloads | calls |\n|---|---:|---:|---:|---:|---:|\n{}{}\n\
             Compilers: bad {}; good {}.\n\n\
             ## Steps\n\n\
             A shell, the two compilers and `cc` for the harness are all it takes; `CC_BAD`, `CC_GOOD` and `HARNESS_CC` \
             name others.\n\n\
             ```\n{FIRST_STEP}\n./run.sh            # times them in turns, prints the ratio\n\
             ./count.sh          # instructions of both, by valgrind: needs no quiet machine\n\
             cvise --n 1 $PWD/interesting.sh subject.i      # or creduce: a smaller file that is still slow and right\n```\n\n\
             `subject.i` is the file under test, preprocessed; everything else is compiled by `HARNESS_CC`. The harness \
             prints a digest of all results (`answer`){}; it converts clock ticks to core cycles by a chain of \
             multiplications beside each sample. The command lines are in `settings.sh`.\n",
            subject.name,
            subject.name,
            subject.alg,
            subject.convention.function,
            self.messages.len,
            side("bad", bad),
            side("good", good),
            of(bad),
            of(good),
            bad.cell.cc.version,
            good.cell.cc.version,
            self.answer.map_or(String::new(), |a| format!(", `{a:016x}` if they are right")),
        )
    }
}

const BUILD: &str = "#!/bin/sh
# Makes ./bad and ./good, or into the directory that is named.
set -eu
here=$(cd \"$(dirname \"$0\")\" && pwd)
. \"$here/settings.sh\"
out=${1:-$here}
objects=
for file in $HARNESS $SUPPORT; do
	flags='-O2 -fno-pie -fno-stack-protector'
	case $file in
	harness.c | memory.c) ;;
	kiln.i) flags=\"$flags -ffreestanding -mgeneral-regs-only\" ;;
	support*.i) flags=\"$flags -ffreestanding -w\" ;;
	*) flags=\"$flags -mgeneral-regs-only\" ;;
	esac
	eval \"set -- $DEFINES\"
	$HARNESS_CC $WIDTH $flags \"$@\" -c \"$here/$file\" -o \"$out/${file%.*}.o\"
	objects=\"$objects $out/${file%.*}.o\"
done
for object in $OBJECTS; do
	objects=\"$objects $here/$object\"
done
one() { # NAME COMPILER FLAGS LINK
	own=
	for file in $FILES; do
		# What is being reduced lies in the current directory.
		[ -f \"$file\" ] || file=$here/$file
		object=$out/$1-$(basename \"$file\" .i).o
		$2 $3 -w -c \"$file\" -o \"$object\"
		own=\"$own $object\"
	done
	$2 $WIDTH $4 $own $objects -o \"$out/$1\"
}
one bad \"$CC_BAD\" \"$BAD_FLAGS\" \"$BAD_LINK\"
one good \"$CC_GOOD\" \"$GOOD_FLAGS\" \"$GOOD_LINK\"
";

const RUN: &str = "#!/bin/sh
# Times ./bad and ./good in turns: the best of each, in core cycles a byte, and their ratio.
set -eu
here=$(cd \"$(dirname \"$0\")\" && pwd)
. \"$here/settings.sh\"
out=${1:-$here}
export ASAN_OPTIONS=detect_leaks=0
for turn in 1 2 3 4 5 6 7 8; do
	for build in bad good; do
		# A new file each time: where the pages of one lie can make a severalfold difference.
		rm -f \"$out/turn\"
		cp \"$out/$build\" \"$out/turn\"
		\"$out/turn\" $MESSAGES 40 2>/dev/null | sed \"s/^/$build /\"
	done
done | LC_ALL=C awk -v messages=\"$MESSAGES\" -v answer=\"$ANSWER\" '
	$2 == \"sample\" { if (!($1 in best) || $3 < best[$1]) best[$1] = $3 }
	$2 == \"answer\" { if ($3 != (answer == \"\" ? $3 : answer)) wrong[$1] = $3
			if (last != \"\" && last != $3) wrong[$1] = $3; last = $3 }
	END {
		split(messages, m, \" \")
		if (!(\"bad\" in best) || !(\"good\" in best)) { print \"a build does not run\"; exit 1 }
		printf \"bad   %.2f cycles a byte\\ngood  %.2f cycles a byte\\n\", best[\"bad\"] / m[2], best[\"good\"] / m[2]
		printf \"ratio %.3f\\n\", best[\"bad\"] / best[\"good\"]
		for (b in wrong) { print b \" answers \" wrong[b] \", which is wrong\"; bad = 1 }
		exit bad
	}'
";

const INTERESTING: &str = "#!/bin/sh
# For cvise and creduce: exit status 0 if the subject.i of the current directory is still right in both builds and
# still slow in the bad one.
set -eu
here=$(cd \"$(dirname \"$0\")\" && pwd)
. \"$here/settings.sh\"
work=$(mktemp -d)
trap 'rm -rf \"$work\"' EXIT
\"$here/build.sh\" \"$work\" >/dev/null 2>&1
\"$here/run.sh\" \"$work\" | LC_ALL=C awk -v keep=\"$KEEP\" '
	/wrong|not run/ { lost = 1 }
	$1 == \"ratio\" { ratio = $2 }
	END { exit lost || ratio < keep }'
";

const COUNT: &str = "#!/bin/sh
# Instructions of both builds, start and harness included; valgrind knows no AVX-512, VAES and SHA-NI.
set -eu
here=$(cd \"$(dirname \"$0\")\" && pwd)
. \"$here/settings.sh\"
command -v valgrind >/dev/null || { echo 'no valgrind: apt-get install valgrind' >&2; exit 3; }
for build in bad good; do
	printf '%-5s' $build
	valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \"$here/$build\" $MESSAGES 0 2>&1 |
		sed -n 's/.*I *refs: */ /p'
done
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_someone_else_is_refused_and_an_own_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        refuse_foreign(dir.path()).unwrap();
        let readme = dir.path().join("README.md");
        fs::write(&readme, format!("# slow\n\n{FIRST_STEP}\n")).unwrap();
        refuse_foreign(dir.path()).unwrap();
        fs::write(&readme, "# My notes\n").unwrap();
        let fault = refuse_foreign(dir.path()).unwrap_err().to_string();
        assert!(fault.contains("did not write"), "{fault}");
    }

    #[test]
    fn a_build_is_bad_only_beyond_the_noise() {
        let measured = |ratio, low| {
            Some(Ratio {
                ratio,
                low,
                high: 2.0,
                pairs: 8,
            })
        };
        assert!(!is_alike(1.5, measured(1.5, 1.4)));
        assert!(!is_alike(1.5, None));
        // The interval includes 1, or the difference is too small.
        assert!(is_alike(1.5, measured(1.5, 0.9)));
        assert!(is_alike(1.03, measured(1.01, 1.005)));
        assert!(is_alike(1.01, measured(1.03, 1.02)));
        assert!(is_alike(1.01, None));
    }
}
