//! Finds a stock Debian kernel for x86-64. A kernel that is not installed is downloaded by apt and
//! unpacked into the cache.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;

/// A kernel, and the headers needed to build modules for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Kernel release that `uname -r` prints.
    pub release: String,
    pub image: PathBuf,
    /// Directory of the kernel's headers, as passed to `make -C`.
    pub headers: PathBuf,
    /// Directory of the kernel's own modules.
    pub modules: PathBuf,
}

impl Kernel {
    /// Uses a bzImage that the user named. `headers` is the directory of the kernel's headers, or
    /// the tree in which the kernel was built.
    ///
    /// # Errors
    /// Fails if the image is not a bzImage, or the directory does not contain headers.
    pub fn from_user(image: &Path, headers: &Path) -> Result<Kernel, Error> {
        let head = fs::read(image).map_err(|source| Error::Image {
            path: image.to_owned(),
            source,
        })?;
        // A bzImage has "HdrS" at offset 0x202 (Documentation/arch/x86/boot.rst).
        if head.get(0x202..0x206) != Some(b"HdrS") {
            return Err(Error::NotBzImage(image.to_owned()));
        }
        let headers = fs::canonicalize(headers).map_err(|source| Error::Headers {
            path: headers.to_owned(),
            source,
        })?;
        let release = fs::read_to_string(headers.join("include/config/kernel.release"))
            .map_err(|source| Error::NoRelease {
                headers: headers.clone(),
                source,
            })?
            .trim()
            .to_owned();
        let installed = Path::new("/lib/modules").join(&release).join("kernel");
        Ok(Kernel {
            image: image.to_owned(),
            modules: if installed.is_dir() {
                installed
            } else {
                headers.clone()
            },
            headers,
            release,
        })
    }

    /// Returns the first two numbers of the release, for example 6.12.
    pub fn version(&self) -> String {
        version(&self.release)
    }

    /// Returns the name of the Kiln FPU policy that corresponds to this kernel. Since 6.15,
    /// softirqs cannot interrupt FPU sections.
    pub fn policy(&self) -> &'static str {
        policy(&self.release)
    }
}

/// Returns the first two numbers of a release, for example 6.12.
pub fn version(release: &str) -> String {
    let numbers = numbers(release);
    let of = |i: usize| numbers.get(i).copied().unwrap_or(0);
    format!("{}.{}", of(0), of(1))
}

/// Returns the name of the Kiln FPU policy that corresponds to a kernel of this release.
pub fn policy(release: &str) -> &'static str {
    match numbers(release)[..] {
        [major, minor, ..] if (major, minor) < (6, 15) => "legacy",
        _ => "bh-off",
    }
}

fn numbers(release: &str) -> Vec<u32> {
    let words = release.split(|c: char| !c.is_ascii_digit());
    words.map_while(|w| w.parse().ok()).collect()
}

/// Finds the newest kernel of the series `version`, for example 6.12.
///
/// # Errors
/// Fails if such a kernel is neither installed nor known to apt, or if the cache cannot be used.
pub fn find(version: &str, progress: &dyn Fn(&str)) -> Result<Kernel, Error> {
    if let Some(kernel) = installed(version) {
        return Ok(kernel);
    }
    let cache = kiln_tree::root()?.join("kiln/linux/debian");
    if let Some(kernel) = unpacked(&cache, version) {
        return Ok(kernel);
    }
    let releases = known_to_apt(version)?;
    let newest = releases.iter().max_by(|a, b| by_number(a, b));
    let Some(release) = newest else {
        return Err(Error::NoImage(version.to_owned()));
    };
    download(&cache, release, progress)
}

fn installed(version: &str) -> Option<Kernel> {
    let names = fs::read_dir("/boot").ok()?.flatten();
    let releases = names.filter_map(|e| {
        let name = e.file_name().into_string().ok()?;
        name.strip_prefix("vmlinuz-").map(str::to_owned)
    });
    let fit = releases.filter(|r| is_stock(r, version));
    let mut kernels: Vec<Kernel> = fit
        .map(|release| kernel_in(Path::new("/"), &release))
        .filter(|k| k.headers.join("Makefile").is_file())
        .collect();
    kernels.sort_by(|a, b| by_number(&a.release, &b.release));
    kernels.pop()
}

fn unpacked(cache: &Path, version: &str) -> Option<Kernel> {
    let names = fs::read_dir(cache).ok()?.flatten();
    let mut releases: Vec<String> = names
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|r| is_stock(r, version) && cache.join(r).join("whole").is_file())
        .collect();
    releases.sort_by(|a, b| by_number(a, b));
    let release = releases.pop()?;
    Some(kernel_in(&cache.join(&release), &release))
}

fn kernel_in(root: &Path, release: &str) -> Kernel {
    Kernel {
        release: release.to_owned(),
        image: root.join(format!("boot/vmlinuz-{release}")),
        headers: root.join(format!("usr/src/linux-headers-{release}")),
        modules: root.join(format!("lib/modules/{release}/kernel")),
    }
}

/// Returns whether the release is Debian's standard kernel of this version, not one of its cloud or
/// real-time kernels.
fn is_stock(release: &str, version: &str) -> bool {
    let rest = release
        .strip_prefix(version)
        .and_then(|r| r.strip_suffix("-amd64"));
    rest.is_some_and(|r| {
        r.starts_with(['.', '-', '+']) && !r.contains("cloud") && !r.contains("-rt")
    })
}

/// Compares names by the numbers in them, so that 6.1.0-9 precedes 6.1.0-10.
fn by_number(a: &str, b: &str) -> Ordering {
    let numbers = |s: &str| -> Vec<u64> {
        s.split(|c: char| !c.is_ascii_digit())
            .filter_map(|w| w.parse().ok())
            .collect()
    };
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

fn run(program: &str, arguments: &[&str], dir: &Path) -> Result<String, Error> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| Error::NotDebian(program.to_owned(), e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said
            .lines()
            .find(|l| l.starts_with("E:"))
            .or(said.lines().last());
        return Err(Error::Apt {
            command: format!("{program} {}", arguments.join(" ")),
            line: line.unwrap_or("no message").to_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn known_to_apt(version: &str) -> Result<Vec<String>, Error> {
    let pattern = format!("^linux-image-{}[.+-].*-amd64$", version.replace('.', "[.]"));
    let said = run(
        "apt-cache",
        &["search", "--names-only", &pattern],
        Path::new("/"),
    )?;
    Ok(releases(&said, version))
}

/// Parses the output of apt-cache, whose lines have the format `linux-image-RELEASE - WORDS`.
fn releases(said: &str, version: &str) -> Vec<String> {
    let names = said.lines().filter_map(|line| line.split(' ').next());
    names
        .filter_map(|name| name.strip_prefix("linux-image-"))
        // Skip metapackages such as 6.12-amd64, which contain no kernel.
        .filter(|r| is_stock(r, version) && !r[version.len()..].starts_with("-amd64"))
        .map(str::to_owned)
        .collect()
}

fn download(cache: &Path, release: &str, progress: &dyn Fn(&str)) -> Result<Kernel, Error> {
    fs::create_dir_all(cache).map_err(|e| Error::cache(cache, e))?;
    let dir = kiln_tree::make_scratch(cache, &format!("{release}."))
        .map_err(|e| Error::cache(cache, e))?;
    fill(dir.path(), release, progress)?;
    let place = cache.join(release);
    // Remove what an interrupted download left behind, or a directory that another kiln process has
    // just completed.
    let _ = fs::remove_dir_all(&place);
    fs::rename(dir.path(), &place).map_err(|e| Error::cache(&place, e))?;
    place_headers(&place, release)?;
    kiln_tree::update(&place.join("whole"), "")?;
    Ok(kernel_in(&place, release))
}

fn fill(dir: &Path, release: &str, progress: &dyn Fn(&str)) -> Result<(), Error> {
    let headers = format!("linux-headers-{release}");
    let depends = run("apt-cache", &["depends", &headers], dir)?;
    let mut packages = vec![format!("linux-image-{release}"), headers];
    packages.extend(needed(&depends));
    for package in &packages {
        progress(&format!("downloading {package}"));
        run("apt-get", &["download", package], dir)?;
    }
    progress(&format!("unpacking linux-image-{release}"));
    let archives = fs::read_dir(dir)
        .map_err(|e| Error::cache(dir, e))?
        .flatten();
    for archive in archives.map(|e| e.path()) {
        if archive.extension().is_some_and(|e| e == "deb") {
            let name = archive.to_string_lossy().into_owned();
            run("dpkg-deb", &["-x", &name, "."], dir)?;
            fs::remove_file(&archive).map_err(|e| Error::cache(&archive, e))?;
        }
    }
    Ok(())
}

/// Parses the dependencies of a headers package. Returns the packages that contain more headers or
/// the programs for building a module. The compiler's package is omitted.
fn needed(depends: &str) -> Vec<String> {
    let names = depends
        .lines()
        .filter_map(|l| l.trim().strip_prefix("Depends: "));
    names
        .filter(|n| n.starts_with("linux-headers-") || n.starts_with("linux-kbuild-"))
        .map(str::to_owned)
        .collect()
}

/// Adjusts the headers' Makefile, which includes another Makefile by its absolute path. Replaces
/// `/usr/src` in this path with the corresponding directory under `root`.
fn place_headers(root: &Path, release: &str) -> Result<(), Error> {
    let path = root.join(format!("usr/src/linux-headers-{release}/Makefile"));
    let text = fs::read_to_string(&path).map_err(|e| Error::cache(&path, e))?;
    let moved = text.replace("/usr/src/", &format!("{}/usr/src/", root.display()));
    fs::write(&path, moved).map_err(|e| Error::cache(&path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_change_with_6_15() {
        for (release, version_, policy_) in [
            ("6.1.0-56-amd64", "6.1", "legacy"),
            ("6.12.117+deb12-amd64", "6.12", "legacy"),
            ("6.14.0", "6.14", "legacy"),
            ("6.15.0-rc1", "6.15", "bh-off"),
            ("6.18.44-fc", "6.18", "bh-off"),
            ("7.0", "7.0", "bh-off"),
        ] {
            assert_eq!(
                (version(release).as_str(), policy(release)),
                (version_, policy_)
            );
        }
    }

    #[test]
    fn the_newest_stock_kernel_is_chosen() {
        let said = "linux-image-6.1.0-9-amd64 - x\nlinux-image-6.1.0-56-amd64 - x\n\
                    linux-image-6.1.0-56-cloud-amd64 - x\nlinux-image-6.1.0-57-rt-amd64 - x\n\
                    linux-image-6.12.117+deb12-amd64 - x\nlinux-image-6.1-amd64 - x\n\
                    linux-image-6.1.0-58-amd64-dbg - x\n";
        let found = releases(said, "6.1");
        assert_eq!(found, ["6.1.0-9-amd64", "6.1.0-56-amd64"]);
        assert_eq!(
            found.iter().max_by(|a, b| by_number(a, b)).unwrap(),
            "6.1.0-56-amd64"
        );
        assert_eq!(releases(said, "6.12"), ["6.12.117+deb12-amd64"]);
    }

    #[test]
    fn only_headers_and_their_programs_are_needed() {
        let said = "linux-headers-6.1.0-56-amd64\n  Depends: linux-headers-6.1.0-56-common\n  \
                    Depends: linux-kbuild-6.1\n  Depends: linux-compiler-gcc-12-x86\n";
        assert_eq!(
            needed(said),
            ["linux-headers-6.1.0-56-common", "linux-kbuild-6.1"]
        );
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("bzImage");
        fs::write(&image, "x").unwrap();
        for (image, headers) in [
            (dir.path().join("none"), dir.path().to_owned()),
            (image.clone(), dir.path().to_owned()),
        ] {
            assert!(matches!(
                Kernel::from_user(&image, &headers),
                Err(Error::Image { .. } | Error::NotBzImage(_))
            ));
        }
        let mut head = vec![0; 0x300];
        head[0x202..0x206].copy_from_slice(b"HdrS");
        fs::write(&image, head).unwrap();
        assert!(matches!(
            Kernel::from_user(&image, dir.path()),
            Err(Error::NoRelease { .. })
        ));
        fs::create_dir_all(dir.path().join("include/config")).unwrap();
        fs::write(dir.path().join("include/config/kernel.release"), "6.15.2\n").unwrap();
        let kernel = Kernel::from_user(&image, dir.path()).unwrap();
        assert_eq!(
            (kernel.release.as_str(), kernel.policy()),
            ("6.15.2", "bh-off")
        );
    }
}
