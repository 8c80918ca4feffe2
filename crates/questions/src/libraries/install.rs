//! Installs a library: builds it in a new directory, checks it there, and renames the directory to
//! its final name.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use kiln_kbuild::which;
use kiln_question::Error;
use kiln_tree::make_scratch;

use super::catalogue::Library;
use super::job::{Built, Fault, Job};
use kiln_timing::peer;

/// Installs a library into a directory below `all`. Returns a sentence that states the result.
pub(super) fn install(
    library: &Library,
    all: &Path,
    stop: &AtomicBool,
    report: &dyn Fn(f64, &str),
) -> Result<String, Fault> {
    let mut job = Job {
        name: library.name,
        dir: all.to_owned(),
        stop,
        report,
    };
    check_tools(&job, library)?;
    fs::create_dir_all(all).map_err(|e| job.file_fault(all, e))?;
    remove_remains(all, library.name);
    let scratch = make_scratch(all, &scratch_prefix(library.name));
    let scratch = scratch.map_err(|e| job.file_fault(all, e))?;
    job.dir = scratch.path().join("build");
    fs::create_dir(&job.dir).map_err(|e| job.file_fault(&job.dir, e))?;
    let built = (library.build)(&job)?;
    place(&job, library, &built, all, scratch.path())
}

/// Checks a newly built library, and moves it to its final directory.
fn place(
    job: &Job,
    library: &Library,
    built: &Built,
    all: &Path,
    scratch: &Path,
) -> Result<String, Fault> {
    let ready = scratch.join("ready");
    fs::create_dir(&ready).map_err(|e| job.file_fault(&ready, e))?;
    for (from, name) in &built.files {
        let to = ready.join(name);
        fs::copy(from, &to).map_err(|e| job.file_fault(&to, e))?;
    }
    // If the new library cannot be loaded, it must not replace an installed one.
    let loaded = peer::load_from(library.name, Some(&ready.join(library.file)))
        .map_err(|why| Error::lacks(format!("cannot install {}: {why}", library.name)))?;
    if loaded.version() != built.version {
        let why = format!("{} calls itself {}", built.version, loaded.version());
        return Err(job.fault(&why, "report it, with the output of kiln --version"));
    }
    drop(loaded);
    let (name, version) = (library.name, &built.version);
    let to = all.join(format!("{name}-{version}"));
    if to.is_dir() {
        // An earlier installation, or another process, has already created this directory.
        // Processes that have opened the old file can keep using it.
        let old = scratch.join("old");
        fs::rename(&to, &old).map_err(|e| job.file_fault(&to, e))?;
    }
    fs::rename(&ready, &to).map_err(|e| job.file_fault(&to, e))?;
    Ok(format!("installed {name} {version} in {}", to.display()))
}

/// Checks that all required programs exist. The error lists all missing programs.
fn check_tools(job: &Job, library: &Library) -> Result<(), Fault> {
    let missing: Vec<_> = library
        .tools
        .iter()
        .filter(|(program, _)| which(program).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Err(job.fault(
        &format!("{} not found", programs.join(", ")),
        &format!("apt-get install {}", packages.join(" ")),
    ))
}

fn scratch_prefix(name: &str) -> String {
    format!(".new-{name}-")
}

/// Removes directories left behind by installations that were killed. Directories younger than six
/// hours are kept, because an installation may still be running in them.
fn remove_remains(all: &Path, name: &str) {
    let prefix = scratch_prefix(name);
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let old = entry.metadata().and_then(|m| m.modified());
        let old = old.is_ok_and(|t| t.elapsed().is_ok_and(|age| age.as_secs() > 6 * 3600));
        if old && entry.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
