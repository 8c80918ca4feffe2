//! Builds the init program for kernels that Kiln boots (`linux/init/`), and writes the commands
//! that the program executes.

use std::fmt;
use std::fs;
use std::process::Command;

use kiln_kbuild::Compiler;

use crate::initramfs::Initramfs;
use crate::Error;

const SOURCES: &[(&str, &str)] = &[
    ("console.c", include_str!("../../../linux/init/console.c")),
    ("init.c", include_str!("../../../linux/init/init.c")),
    ("init.h", include_str!("../../../linux/init/init.h")),
    ("order.c", include_str!("../../../linux/init/order.c")),
];

/// Compiler flags. The program is linked statically, because the initramfs contains no libraries
/// for it.
const FLAGS: &[&str] = &["-std=gnu11", "-O2", "-static", "-s", "-w"];

/// Maximum length in bytes of a line in the command file, including its newline.
const LONGEST: usize = 4095;
/// Exclusive upper limit on the number of words in a command.
const WORDS: usize = 64;

/// A command for init.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    words: Vec<String>,
    may_fail: bool,
}

impl Order {
    fn new(words: &[&str]) -> Order {
        Order {
            words: words.iter().map(|w| w.to_string()).collect(),
            may_fail: false,
        }
    }

    /// Creates a command to load a module from the initramfs. Parameters use `insmod` syntax. If
    /// the file name does not end in `.ko`, the kernel decompresses the module.
    pub fn module(path: &str, parameters: &str) -> Order {
        Order::new(&["module", path, parameters])
    }

    /// Creates a command to unload the module with this name. If the module stays in use for ten
    /// seconds, the command fails with `EAGAIN`.
    pub fn remove(name: &str) -> Order {
        Order::new(&["remove", name])
    }

    /// Creates a command to run a program. The arguments do not include the program's name.
    pub fn run(path: &str, arguments: &[&str]) -> Order {
        Order::new(&[&["run", path], arguments].concat())
    }

    /// Creates a command to print a file, line by line.
    pub fn print(path: &str) -> Order {
        Order::new(&["print", path])
    }

    /// Creates a command to print the lines of all files that match a glob(7) pattern. Each line is
    /// prefixed with the file's path and a tab. If `words` is not empty, only lines that contain at
    /// least one of the words are printed.
    pub fn lines(pattern: &str, words: &[&str]) -> Order {
        Order::new(&[&["lines", pattern], words].concat())
    }

    /// Creates a command to write to an existing file, such as one in `/sys`.
    pub fn write(path: &str, text: &str) -> Order {
        Order::new(&["write", path, text])
    }

    /// Allows the command to fail. If it does, later commands are still executed, and init still
    /// succeeds.
    pub(crate) fn may_fail(mut self) -> Order {
        self.may_fail = true;
        self
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minus = if self.may_fail { "-" } else { "" };
        write!(f, "{minus}{}", self.words.join("\t"))
    }
}

/// Generates the content of the command file.
///
/// # Errors
/// Fails if a word contains a byte that separates words or commands, or if a command exceeds the
/// init program's limits.
pub fn orders(orders: &[Order]) -> Result<String, Error> {
    let mut file = String::new();
    for order in orders {
        let line = order.to_string();
        let separates = |word: &String| word.contains(['\t', '\n', '\0']);
        if order.words.iter().any(separates) {
            return Err(Error::OrderSeparator(line));
        }
        if line.len() + 1 > LONGEST || order.words.len() >= WORDS {
            return Err(Error::OrderLength {
                line,
                bytes: LONGEST,
                words: WORDS,
            });
        }
        file.push_str(&line);
        file.push('\n');
    }
    Ok(file)
}

/// Returns the init executable.
///
/// # Errors
/// The same errors as [`static_program`].
pub fn program(compiler: &Compiler) -> Result<Vec<u8>, Error> {
    static_program(compiler, "init", SOURCES)
}

/// Returns a static executable of these C sources, either from the cache or newly compiled.
///
/// # Errors
/// Fails if the compiler cannot build a static program, or the cache cannot be used.
pub(crate) fn static_program(
    compiler: &Compiler,
    name: &str,
    sources: &[(&str, &str)],
) -> Result<Vec<u8>, Error> {
    let identity = format!("{} {}", compiler.path.display(), compiler.version);
    let mut parts: Vec<&[u8]> = vec![identity.as_bytes()];
    parts.extend(FLAGS.iter().map(|f| f.as_bytes()));
    parts.extend(sources.iter().map(|(_, text)| text.as_bytes()));
    let dir = kiln_tree::root()?.join(format!(
        "kiln/linux/{name}-{:016x}",
        kiln_tree::hash(&parts)
    ));
    let path = dir.join(name);
    if let Ok(program) = fs::read(&path) {
        return Ok(program);
    }
    for (file, text) in sources {
        kiln_tree::update(&dir.join(file), text)?;
    }
    // Compile in a scratch directory and rename the result, because another kiln process may
    // compile the same program concurrently.
    let scratch = kiln_tree::make_scratch(&dir, "").map_err(|e| Error::cache(&dir, e))?;
    let unfinished = scratch.path().join(name);
    let mut command = Command::new(&compiler.path);
    command
        .args(FLAGS)
        .arg("-o")
        .arg(&unfinished)
        .args(
            sources
                .iter()
                .map(|(file, _)| file)
                .filter(|file| file.ends_with(".c")),
        )
        .current_dir(&dir);
    kiln_tree::run_tool(&mut command, "gcc")?.map_err(|why| Error::Init {
        compiler: compiler.path.clone(),
        why,
    })?;
    fs::rename(&unfinished, &path).map_err(|e| Error::cache(&path, e))?;
    fs::read(&path).map_err(|e| Error::cache(&path, e))
}

/// Creates an initramfs that contains the program and its commands. The caller adds the files that
/// the commands refer to.
///
/// # Errors
/// The same errors as [`program`] and [`orders`].
pub fn initramfs(compiler: &Compiler, all: &[Order]) -> Result<Initramfs, Error> {
    let mut archive = Initramfs::new();
    archive.file("orders", orders(all)?.as_bytes());
    archive.file("init", &program(compiler)?);
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_lines_of_words() {
        let file = orders(&[
            Order::module("/m.ko", "mode=200 alg=\"cbc(aes)\"").may_fail(),
            Order::run("/bin/p", &["a b", ""]),
            Order::print("/proc/crypto"),
        ]);
        assert_eq!(
            file.unwrap(),
            "-module\t/m.ko\tmode=200 alg=\"cbc(aes)\"\nrun\t/bin/p\ta b\t\nprint\t/proc/crypto\n"
        );
    }

    #[test]
    fn what_the_program_would_misread_is_refused() {
        for bad in [
            Order::run("/p", &["a\nremove\tx"]),
            Order::module("/m.ko", "a\tb"),
            Order::run("/p", &["\0"]),
            Order::write("/f", &"x".repeat(LONGEST)),
            Order::run("/p", &["x"; WORDS]),
        ] {
            let e = orders(&[bad]).unwrap_err();
            assert!(matches!(
                e,
                Error::OrderSeparator(_) | Error::OrderLength { .. }
            ));
            assert_eq!(e.to_string().lines().count(), 1, "{e}");
        }
    }

    #[test]
    fn no_source_is_forgotten() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../linux/init");
        let mut there: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        let listed: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        assert_eq!(there, listed);
    }
}
