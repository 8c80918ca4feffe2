//! Writes the HTML page, and recognises pages that Kiln wrote.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use kiln_question::{replace, Error, Session};
use kiln_report::{Options, Side};
use serde_json::Value;

/// Default file name of the page.
pub const NAME: &str = "kiln-report.html";
/// File name of the page if `--out` names a directory.
pub(super) const NAME_OUT: &str = "report.html";
/// Text near the beginning of every page that Kiln writes. Kiln recognises its own pages by this
/// text.
const MARK: &str = "name=\"generator\" content=\"kiln";
const NEAR: u64 = 4096;

/// The path to which a page will be written.
pub struct Page(PathBuf);

impl Page {
    /// Checks, before any measurement, that the page can be written.
    ///
    /// # Errors
    /// Fails if the path is an existing file that Kiln did not write.
    pub fn place(named: Option<&Path>, session: &Session) -> Result<Page, Error> {
        let path = match (named, &session.global.out) {
            (Some(path), _) => path.to_owned(),
            (None, Some(dir)) => dir.join(NAME_OUT),
            (None, None) => PathBuf::from(NAME),
        };
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        if let Some(dir) = dir.filter(|dir| !dir.is_dir()) {
            return Err(Error::input(format!(
                "--report '{}': the directory '{}' does not exist: create it, or name another file",
                path.display(),
                dir.display()
            )));
        }
        match foreign(&path) {
            true => Err(Error::input(format!(
                "'{}' exists and is not a report of Kiln: name another with --report, or leave it out with --no-report",
                path.display()
            ))),
            false => Ok(Page(path)),
        }
    }

    /// Writes the page and returns a line that states the page's path and size.
    ///
    /// # Errors
    /// Fails if the path cannot be written, or if the bundle contains nothing to show.
    pub fn write(&self, bundle: &Value) -> Result<String, Error> {
        let fault = |e: kiln_report::Error| Error::input(e.to_string());
        let side = Side::parse("this machine", &bundle.to_string()).map_err(fault)?;
        let page = kiln_report::html(&[side], &Options::default()).map_err(fault)?;
        replace::write(&self.0, page.as_bytes())?;
        Ok(format!(
            "report: {} ({:.0} KB)",
            self.0.display(),
            (page.len() as f64 / 1e3).ceil()
        ))
    }
}

/// Returns whether the path is a file that Kiln did not write and must not overwrite.
pub fn foreign(path: &Path) -> bool {
    let mut text = Vec::new();
    match File::open(path) {
        // Only a regular file has content to protect; a pipe has none.
        Ok(file) if fs::metadata(path).is_ok_and(|m| m.is_file()) => {
            let _ = file.take(NEAR).read_to_end(&mut text);
            !text.is_empty() && !String::from_utf8_lossy(&text).contains(MARK)
        }
        Ok(_) => false,
        Err(e) => e.kind() == ErrorKind::PermissionDenied && path.exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_kiln_made_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.html");
        assert!(!foreign(&path));
        for (text, is) in [
            ("", false),
            (
                "<!doctype html><meta name=\"generator\" content=\"kiln 0.1.0\">",
                false,
            ),
            ("<!doctype html><p>a thesis</p>", true),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(foreign(&path), is, "{text}");
        }
        assert!(!foreign(Path::new("/dev/null")));
    }
}
