//! Builds or unpacks each library.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use super::job::{Built, Fault, Job};
use super::registry::{fetch_crate, Apt};
use super::step::{run, Span};

const REPORT: &str = "report it, with the output of kiln --version";

/// Runs one program of a build. If the program fails, the error asks the user to report the
/// failure.
fn step(
    job: &Job,
    dir: &Path,
    program: &str,
    arguments: &[&str],
    (what, from, to, lines): (&'static str, f64, f64, usize),
) -> Result<String, Fault> {
    let span = Span {
        what,
        from,
        to,
        lines,
    };
    run(job, dir, program, arguments, &span, REPORT)
}

/// Returns the argument that makes `make` use all cores.
fn jobs() -> String {
    format!("-j{}", available_parallelism().map_or(1, |n| n.get()))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Builds OpenSSL's libcrypto from the newest 4.x release, whose sources are in the crate
/// openssl-src.
pub(super) fn build_openssl(job: &Job) -> Result<Built, Fault> {
    let (dir, version) = fetch_crate(job, "openssl-src", "400", 0.1)?;
    // The crate's version number consists of the crate's own version and the version of OpenSSL, as
    // in 400.0.2+4.0.3.
    let Some((_, version)) = version.split_once('+') else {
        return Err(job.fault(&format!("openssl-src {version} names no OpenSSL"), REPORT));
    };
    let source = dir.join("openssl");
    let configure = [
        "Configure",
        "no-shared",
        "no-module",
        "no-legacy",
        "no-apps",
        "no-tests",
        "-fPIC",
        "linux-x86_64",
    ];
    step(
        job,
        &source,
        "perl",
        &configure,
        ("configuring", 0.1, 0.15, 20),
    )?;
    let make = [&jobs(), "build_generated", "libcrypto.a"];
    step(job, &source, "make", &make, ("building", 0.15, 0.95, 1540))?;
    // Bind calls within this library to the library's own functions, not to those of another
    // libcrypto in this process.
    let link = [
        "-shared",
        "-Wl,-Bsymbolic",
        "-Wl,-z,defs",
        "-Wl,-soname,libcrypto.so.4",
        "-o",
        "libcrypto.so",
        "-Wl,--whole-archive",
        "libcrypto.a",
        "-Wl,--no-whole-archive",
        "-ldl",
        "-lpthread",
    ];
    step(job, &source, "cc", &link, ("linking", 0.95, 1.0, 1))?;
    Ok(Built {
        version: version.to_string(),
        files: vec![(source.join("libcrypto.so").into(), "libcrypto.so")],
    })
}

/// Builds AWS-LC's libcrypto from the sources in the crate aws-lc-sys, including the generated
/// assembly.
pub(super) fn build_aws_lc(job: &Job) -> Result<Built, Fault> {
    let (dir, _) = fetch_crate(job, "aws-lc-sys", ">=0.47, <1", 0.1)?;
    let source = dir.join("aws-lc");
    let header = source.join("include/openssl/base.h");
    let version = read_define(job, &header, "AWSLC_VERSION_NUMBER_STRING")?;
    let build = job.dir.join("objects");
    fs::create_dir(&build).map_err(|e| job.file_fault(&build, e))?;
    let source = text(&source);
    let configure = [
        source.as_str(),
        "-DCMAKE_BUILD_TYPE=Release",
        "-DBUILD_SHARED_LIBS=ON",
        "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-Bsymbolic",
        "-DDISABLE_PERL=ON",
        "-DDISABLE_GO=ON",
        "-DBUILD_TESTING=OFF",
        "-DBUILD_LIBSSL=OFF",
        "-DBUILD_TOOL=OFF",
        "-DDISABLE_CPU_JITTER_ENTROPY=ON",
    ];
    step(
        job,
        &build,
        "cmake",
        &configure,
        ("configuring", 0.1, 0.15, 48),
    )?;
    let make = [&jobs(), "crypto"];
    step(job, &build, "make", &make, ("building", 0.15, 1.0, 377))?;
    Ok(Built {
        version,
        files: vec![(build.join("crypto/libcrypto.so").into(), "libcrypto.so")],
    })
}

/// Unpacks ipsec-mb and its header from Debian's packages. A test compares the header with Kiln's
/// own declarations of its structures.
pub(super) fn unpack_ipsec_mb(job: &Job) -> Result<Built, Fault> {
    let apt = Apt::read_index(job, "deb", 0.8)?;
    let packages = ["download", "libipsec-mb2", "libipsec-mb-dev"];
    apt.download(job, &packages, 0.8, 0.95)?;
    let root = job.dir.join("root");
    for package in apt.find_files("libipsec-mb", ".deb") {
        let arguments = ["-x", &text(&package), &text(&root)];
        step(
            job,
            &job.dir,
            "dpkg-deb",
            &arguments,
            ("unpacking", 0.95, 1.0, 1),
        )?;
    }
    let header = root.join("usr/include/intel-ipsec-mb.h");
    let version = read_define(job, &header, "IMB_VERSION_STR")?;
    let library = root.join("usr/lib/x86_64-linux-gnu/libIPSec_MB.so.2");
    Ok(Built {
        version,
        files: vec![
            (library.into(), "libIPSec_MB.so"),
            (header.into(), "intel-ipsec-mb.h"),
        ],
    })
}

/// Builds libgcrypt from the upstream archives in Debian's source packages. libgpg-error is linked
/// into the library.
pub(super) fn build_libgcrypt(job: &Job) -> Result<Built, Fault> {
    let apt = Apt::read_index(job, "deb-src", 0.3)?;
    let sources = [
        "source",
        "--download-only",
        "--tar-only",
        "libgpg-error",
        "libgcrypt20",
    ];
    apt.download(job, &sources, 0.3, 0.35)?;
    let prefix = text(&job.dir.join("prefix"));
    let errors = unpack(job, &apt, "libgpg-error_")?;
    let to_prefix = format!("--prefix={prefix}");
    let configure = [
        to_prefix.as_str(),
        "--disable-shared",
        "--enable-static",
        "--with-pic",
        "--disable-nls",
        "--disable-doc",
        "--disable-tests",
        "--disable-languages",
    ];
    step(
        job,
        &errors,
        "./configure",
        &configure,
        ("configuring", 0.35, 0.4, 240),
    )?;
    let make = [&jobs(), "install"];
    step(job, &errors, "make", &make, ("building", 0.4, 0.5, 170))?;
    let source = unpack(job, &apt, "libgcrypt20_")?;
    let with_errors = format!("--with-libgpg-error-prefix={prefix}");
    let configure = [
        to_prefix.as_str(),
        with_errors.as_str(),
        "--disable-static",
        "--enable-shared",
        "--disable-doc",
    ];
    step(
        job,
        &source,
        "./configure",
        &configure,
        ("configuring", 0.5, 0.55, 260),
    )?;
    for (part, directory) in ["compat", "mpi", "cipher", "random", "src"]
        .iter()
        .enumerate()
    {
        let from = 0.55 + 0.09 * part as f64;
        let make = [&jobs(), "-C", directory];
        step(
            job,
            &source,
            "make",
            &make,
            ("building", from, from + 0.09, 130),
        )?;
    }
    let version = read_define(job, &source.join("config.h"), "VERSION")?;
    Ok(Built {
        version,
        files: vec![(source.join("src/.libs/libgcrypt.so").into(), "libgcrypt.so")],
    })
}

/// Unpacks the archive whose name begins with `prefix` into a new directory. Returns the path of
/// that directory.
fn unpack(job: &Job, apt: &Apt, prefix: &str) -> Result<PathBuf, Fault> {
    let archives = apt.find_files(prefix, ".orig.tar.bz2");
    let [archive] = &archives[..] else {
        let why = format!("apt-get source gave {} archives {prefix}*", archives.len());
        return Err(job.fault(&why, REPORT));
    };
    let dir = job.dir.join(prefix.trim_end_matches('_'));
    fs::create_dir(&dir).map_err(|e| job.file_fault(&dir, e))?;
    let arguments = ["-x", "-j", "--strip-components=1", "-f", &text(archive)];
    step(job, &dir, "tar", &arguments, ("unpacking", 0.35, 0.35, 1))?;
    Ok(dir)
}

/// Returns the string that a header defines as the value of the macro `name`.
fn read_define(job: &Job, header: &Path, name: &str) -> Result<String, Fault> {
    let text = fs::read_to_string(header).map_err(|e| job.file_fault(header, e))?;
    parse_define(&text, name)
        .ok_or_else(|| job.fault(&format!("{} lacks {name}", header.display()), REPORT))
}

fn parse_define(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let wanted = words.next() == Some("#define") && words.next() == Some(name);
        let value = words.next()?.strip_prefix('"')?.strip_suffix('"')?;
        (wanted && !value.is_empty()).then(|| value.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_headers() {
        let text =
            "/* #define VERSION \"0\" */\n#define VERSION_X \"1\"\n#define VERSION \"1.12.4\"\n";
        assert_eq!(parse_define(text, "VERSION").as_deref(), Some("1.12.4"));
        assert_eq!(parse_define(text, "OTHER"), None);
        assert_eq!(parse_define("#define VERSION 3\n", "VERSION"), None);
    }
}
