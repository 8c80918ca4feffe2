//! Writes an initramfs: an uncompressed cpio archive in the format `newc`, which every kernel can
//! unpack (`Documentation/driver-api/early-userspace/buffer-format.rst` in a kernel tree).

use std::collections::BTreeSet;

const MAGIC: &str = "070701";
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;
/// Name of the entry that ends an archive.
const TRAILER: &str = "TRAILER!!!";
/// Every file name and every file's content is zero-padded until the archive's length is a multiple
/// of this number of bytes.
const ALIGN: usize = 4;

/// An archive to which files can be added. Adding a file also adds the directories in its path.
pub struct Initramfs {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    inode: u32,
}

impl Default for Initramfs {
    fn default() -> Self {
        Initramfs::new()
    }
}

impl Initramfs {
    /// Creates an archive that contains only `/dev/console`, which init needs for its output.
    pub fn new() -> Initramfs {
        let mut archive = Initramfs {
            bytes: Vec::new(),
            directories: BTreeSet::new(),
            inode: 0,
        };
        archive.parents("dev/console");
        archive.entry("dev/console", CHARACTER_DEVICE, (5, 1), &[]);
        archive
    }

    /// Adds an executable file at `path`, which has no leading slash. If a path is added twice, the
    /// second file replaces the first when the archive is unpacked.
    ///
    /// # Panics
    /// Panics if the path is absolute, has components such as `..`, or contains a NUL, or if the
    /// file has 4 GiB or more.
    pub fn file(&mut self, path: &str, content: &[u8]) -> &mut Self {
        let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        assert!(path.split('/').all(plain) && !path.contains('\0'), "{path}");
        self.parents(path);
        self.entry(path, PROGRAM, (0, 0), content);
        self
    }

    /// Ends the archive and returns its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.inode = 0;
        self.entry(TRAILER, 0, (0, 0), &[]);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            let parent = &path[..at];
            if self.directories.insert(parent.to_owned()) {
                self.entry(parent, DIRECTORY, (0, 0), &[]);
            }
        }
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        let len = u32::try_from(content.len()).expect("a file of less than 4 GiB");
        self.inode += 1;
        let links = 1;
        // The fields are the inode, mode, owner, group, number of links, time, size, device that
        // contains the file (major and minor), device that the file represents (major and minor),
        // length of the name including its NUL, and a checksum, which is zero in this format.
        let fields = [
            self.inode,
            mode,
            0,
            0,
            links,
            0,
            len,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(MAGIC.bytes());
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses the archive according to the description of the format. Returns the name, mode and
    /// content of each entry.
    fn read(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut at = 0;
        let mut entries = Vec::new();
        while at < archive.len() {
            assert_eq!(&archive[at..at + 6], b"070701");
            let field = |n: usize| {
                let hex = &archive[at + 6 + 8 * n..][..8];
                u32::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap() as usize
            };
            let (mode, len, name_len) = (field(1), field(6), field(11));
            let name = &archive[at + 110..at + 110 + name_len];
            assert_eq!(name.last(), Some(&0));
            let content = (at + 110 + name_len).next_multiple_of(4);
            entries.push((
                String::from_utf8(name[..name_len - 1].to_vec()).unwrap(),
                mode as u32,
                archive[content..content + len].to_vec(),
            ));
            at = (content + len).next_multiple_of(4);
        }
        entries
    }

    #[test]
    fn every_file_comes_after_its_directories_and_the_trailer_last() {
        let mut archive = Initramfs::new();
        archive.file("init", b"program").file("lib/a/b.ko", b"x");
        archive.file("lib/a/c.ko", &[7; 1001]);
        let entries = read(&archive.finish());
        let names: Vec<&str> = entries.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "dev",
                "dev/console",
                "init",
                "lib",
                "lib/a",
                "lib/a/b.ko",
                "lib/a/c.ko",
                TRAILER
            ]
        );
        assert_eq!(entries[2], ("init".into(), PROGRAM, b"program".to_vec()));
        assert_eq!(entries[6].2, [7; 1001]);
        assert_eq!(entries[0].1, DIRECTORY);
    }

    #[test]
    #[should_panic(expected = "../up")]
    fn a_path_that_leaves_the_archive_is_refused() {
        Initramfs::new().file("../up", b"");
    }
}
