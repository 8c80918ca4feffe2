//! Copies builds. Files written by the kernel's build system contain the paths of the sources and
//! of the build directory, so these paths are replaced in the copy.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::SystemTime;

use memchr::memmem;

use crate::place::FINISHED;
use crate::Error;

/// Returns the time when a build ended; `None` if the build has not ended. A copy is valid if this
/// time did not change while the copy was made.
pub(crate) fn finished(build: &Path) -> Option<SystemTime> {
    let file = fs::metadata(build.join(FINISHED));
    file.and_then(|m| m.modified()).ok()
}

/// Copies a directory of build products. In all files and links, replaces the first path of each
/// pair with the second. Modification times and permissions are preserved.
pub(crate) fn copy_build(from: &Path, to: &Path, names: &[(&[u8], &[u8])]) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(|e| Error::cache(to, e))?;
    for entry in fs::read_dir(from)
        .map_err(|e| Error::cache(from, e))?
        .flatten()
    {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let io = |e| Error::cache(&from, e);
        let kind = entry.file_type().map_err(io)?;
        if kind.is_dir() {
            copy_build(&from, &to, names)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&from).map_err(io)?;
            let target = replace(target.into_os_string().into_encoded_bytes(), names);
            symlink(OsStr::from_bytes(&target), &to).map_err(io)?;
        } else {
            copy_file(&from, &to, names)?;
        }
    }
    Ok(())
}

/// Copies one file for [`copy_build`], with the same replacements. The modification time and the
/// permissions are preserved.
fn copy_file(from: &Path, to: &Path, names: &[(&[u8], &[u8])]) -> Result<(), Error> {
    let io = |e| Error::cache(from, e);
    let meta = fs::metadata(from).map_err(io)?;
    let bytes = replace(fs::read(from).map_err(io)?, names);
    fs::write(to, bytes).map_err(io)?;
    let file = File::options().write(true).open(to).map_err(io)?;
    file.set_permissions(meta.permissions()).map_err(io)?;
    let time = FileTimes::new().set_modified(meta.modified().map_err(io)?);
    file.set_times(time).map_err(io)
}

/// Replaces all occurrences of each old name. In binary files, a name is replaced only by one of
/// the same length, so that offsets in the file remain correct.
fn replace(mut bytes: Vec<u8>, names: &[(&[u8], &[u8])]) -> Vec<u8> {
    let is_text = !bytes.contains(&0);
    for (old, new) in names {
        if old.len() == new.len() || is_text {
            bytes = replace_one(bytes, old, new);
        }
    }
    bytes
}

fn replace_one(bytes: Vec<u8>, old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut end = 0;
    for at in memmem::find_iter(&bytes, old) {
        out.extend_from_slice(&bytes[end..at]);
        out.extend_from_slice(new);
        end = at + old.len();
    }
    if end == 0 {
        return bytes;
    }
    out.extend_from_slice(&bytes[end..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_another_length_are_replaced_in_text_only() {
        let names: [(&[u8], &[u8]); 2] = [(b"/a/b", b"/x/y"), (b"/tree", b"/longer")];
        let replaced = |text: &[u8]| replace(text.to_vec(), &names);
        assert_eq!(
            replaced(b"-I/tree /a/b/c /tree"),
            b"-I/longer /x/y/c /longer"
        );
        assert_eq!(replaced(b"\0/tree\0/a/b"), b"\0/tree\0/x/y");
        assert_eq!(replaced(b"/tre"), b"/tre");
    }
}
