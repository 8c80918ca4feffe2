//! Downloads crates and packages with the registries' own clients. cargo checks crates against the
//! checksums in its index. apt checks packages and source archives against the checksums in an
//! index signed with Debian's key.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::job::{Fault, Job};
use super::step::{run, Span};

const NETWORK: &str = "check the network, and try again";
/// The Debian release to install libraries from. sid has the newest versions.
const SUITE: &str = "sid";
/// Path at which Debian installs its public keys.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches the sources of a crate's newest release that meets the requirement. Returns the
/// directory that contains the sources, and the version of that release.
pub(super) fn fetch_crate(
    job: &Job,
    name: &str,
    requirement: &str,
    to: f64,
) -> Result<(PathBuf, String), Fault> {
    let dir = job.dir.join("fetch");
    let put = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::write(&path, text).map_err(|e| job.file_fault(&path, e))
    };
    fs::create_dir(&dir).map_err(|e| job.file_fault(&dir, e))?;
    // Make the directory a workspace of its own. Otherwise cargo would pick up any workspace that
    // encloses the cache directory.
    put(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[lib]\npath = \"lib.rs\"\n\n\
             [workspace]\n\n[dependencies]\n{name} = \"{requirement}\"\n"
        ),
    )?;
    put("lib.rs", "")?;
    let span = Span {
        what: "downloading",
        from: 0.0,
        to,
        lines: 60,
    };
    let arguments = ["vendor", "--versioned-dirs", "vendor"];
    run(job, &dir, "cargo", &arguments, &span, NETWORK)?;
    let vendor = dir.join("vendor");
    let entries = fs::read_dir(&vendor).map_err(|e| job.file_fault(&vendor, e))?;
    let mut found = entries.flatten().filter_map(|entry| {
        let version = entry.file_name().to_str()?.strip_prefix(name)?.to_string();
        let version = version.strip_prefix('-')?.to_string();
        version
            .starts_with(|c: char| c.is_ascii_digit())
            .then(|| (entry.path(), version))
    });
    found
        .next()
        .ok_or_else(|| job.fault(&format!("cargo vendor gave no {name}"), NETWORK))
}

/// apt, configured to use a separate directory, so that the system's apt is not affected.
pub(super) struct Apt {
    dir: PathBuf,
    options: Vec<String>,
}

impl Apt {
    /// Downloads the index of Debian's newest packages (`deb`) or sources (`deb-src`).
    pub(super) fn read_index(job: &Job, kind: &str, to: f64) -> Result<Apt, Fault> {
        if !Path::new(KEYS).is_file() {
            return Err(job.fault(
                &format!("{KEYS} is missing"),
                "apt-get install debian-archive-keyring",
            ));
        }
        let mirror = find_mirror().ok_or_else(|| {
            job.fault(
                "apt has no mirror of Debian among its sources",
                "build the library yourself, and name it as 'kiln libraries --help' says",
            )
        })?;
        let dir = job.dir.join("apt");
        let put = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).map_err(|e| job.file_fault(&path, e))
        };
        for sub in ["lists/partial", "archives/partial"] {
            let path = dir.join(sub);
            fs::create_dir_all(&path).map_err(|e| job.file_fault(&path, e))?;
        }
        put(
            "sources.list",
            &format!("{kind} [signed-by={KEYS}] {mirror} {SUITE} main\n"),
        )?;
        put("status", "")?;
        let at = dir.display();
        let settings = [
            format!("Dir::Etc::SourceList={at}/sources.list"),
            "Dir::Etc::SourceParts=-".to_string(),
            format!("Dir::State::Lists={at}/lists"),
            format!("Dir::State::status={at}/status"),
            format!("Dir::Cache={at}"),
            "Dir::Cache::archives=archives".to_string(),
            "Acquire::Languages=none".to_string(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_string(),
            // If apt runs as root, it downloads as another user by default, and that user might not
            // have access to this directory.
            format!("APT::Sandbox::User={}", user()),
            "APT::Architecture=amd64".to_string(),
        ];
        let options = settings.into_iter().flat_map(|s| ["-o".to_string(), s]);
        let apt = Apt {
            dir,
            options: ["-q".to_string()].into_iter().chain(options).collect(),
        };
        let span = Span {
            what: "reading Debian's index",
            from: 0.0,
            to,
            lines: 8,
        };
        apt.get(job, &["--error-on=any", "update"], &span, NETWORK)?;
        Ok(apt)
    }

    /// Downloads packages into the directory. With `--tar-only`, downloads only the upstream
    /// archives of source packages.
    pub(super) fn download(
        &self,
        job: &Job,
        arguments: &[&str],
        from: f64,
        to: f64,
    ) -> Result<(), Fault> {
        let span = Span {
            what: "downloading",
            from,
            to,
            lines: 12,
        };
        // Do not suggest checking the network: it works, because the index has been downloaded.
        let help = "try again, or report it: Debian may have renamed the package";
        self.get(job, arguments, &span, help)
    }

    fn get(&self, job: &Job, arguments: &[&str], span: &Span, help: &str) -> Result<(), Fault> {
        let options = self.options.iter().map(String::as_str);
        let all: Vec<&str> = options.chain(arguments.iter().copied()).collect();
        run(job, &self.dir, "apt-get", &all, span, help)?;
        Ok(())
    }

    /// Returns the downloaded files whose names begin with `prefix` and end with `suffix`.
    pub(super) fn find_files(&self, prefix: &str, suffix: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let like = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(prefix) && name.ends_with(suffix)
        };
        let mut all: Vec<PathBuf> = entries.map(|e| e.path()).filter(like).collect();
        all.sort();
        all
    }
}

/// Returns the Debian mirror that this machine's apt uses.
fn find_mirror() -> Option<String> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(LABEL) $(REPO_URI)"])
        .env("LC_ALL", "C")
        .output()
        .ok()?;
    parse_mirror(&String::from_utf8_lossy(&output.stdout))
}

/// Returns the address from the first line of the form `Debian ADDRESS`. Other archives, such as
/// `Debian-Security`, do not contain a whole release.
fn parse_mirror(targets: &str) -> Option<String> {
    let mirror = targets.lines().find_map(|l| l.strip_prefix("Debian "))?;
    (!mirror.is_empty() && !mirror.contains(char::is_whitespace)).then(|| mirror.to_string())
}

fn user() -> String {
    // SAFETY: geteuid takes no arguments and cannot fail.
    let id = unsafe { libc::geteuid() };
    match id {
        0 => "root".to_string(),
        // apt ignores this setting unless it runs as root.
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_debians_own_archive() {
        let targets = "Debian-Security http://s.example/debian-security/\n\
                       Debian http://m.example/debian/\nDebian http://other.example/debian/\n";
        assert_eq!(
            parse_mirror(targets).as_deref(),
            Some("http://m.example/debian/")
        );
        assert_eq!(parse_mirror("Ubuntu http://u.example/ubuntu/\n"), None);
        assert_eq!(parse_mirror("Debian a b\n"), None);
        assert_eq!(parse_mirror(""), None);
    }
}
