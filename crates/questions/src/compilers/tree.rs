//! Creates subjects from files in a kernel tree. Each file is compiled with the flags from the
//! tree's own build, but the compiler and the optimization level vary.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_question::Error;

use super::file;
use super::object;
use super::subject::{Convention, Flags, Judge, Source, Subject};

/// Files for which the user need not name a function. Each entry consists of the path, the cipher
/// function and the key setup function.
const KNOWN: [(&str, &str, &str); 2] = [
    (
        "crypto/aes_generic.c",
        "crypto_aes_encrypt",
        "crypto_aes_set_key",
    ),
    ("lib/crypto/aes.c", "aes_encrypt", "aes_expandkey"),
];

/// Directories in the tree whose functions a subject may call. The objects in these directories
/// have no state and do not register anything.
const LEAVES: [&str; 2] = ["lib/crypto", "lib"];

/// A kernel tree that has been built.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// Directory that contains the tree's sources.
    pub source: PathBuf,
    /// Directory that contains the tree's objects and the commands that compiled them.
    pub build: PathBuf,
    /// Name of the tree, such as `linux-6.12.1`.
    pub name: String,
}

impl Tree {
    /// Creates the subject for a file in the tree; `None` if the tree has no such file.
    pub(super) fn subject(&self, text: &str) -> Option<Result<Subject, Error>> {
        let path = text.split(':').next().unwrap_or_default();
        let there = !path.is_empty() && self.source.join(path).is_file();
        there.then(|| self.file(text, path))
    }

    fn file(&self, text: &str, path: &str) -> Result<Subject, Error> {
        let mut words = text.splitn(3, ':').skip(1);
        let known = KNOWN.iter().find(|(file, _, _)| *file == path);
        let convention: Convention = match (words.next(), words.next(), known) {
            (Some(function), Some(convention), _) => file::find_convention(convention, function, path)?,
            (None, _, Some((_, function, setkey))) => {
                file::find_convention("block", &format!("{function}+{setkey}"), path)?
            }
            _ => {
                return Err(Error::input(format!(
                    "'{text}': add how to call it: FILE:FUNCTION:CONVENTION, described in docs/COMPILERS.md"
                )))
            }
        };
        let commands = self.commands(path)?;
        let own = own_flags(path, &commands);
        let line = &commands[stem(path)];
        let common = line.iter().filter(|f| !own.contains(f)).cloned().collect();
        let aes = known.is_some();
        Ok(Subject {
            name: format!("{}:{path}", self.name),
            alg: if aes { "cbc(aes)" } else { convention.name }.to_string(),
            key_bits: (convention.key > 0).then_some(convention.key as u32 * 8),
            sources: vec![Source {
                path: self.source.join(path),
                flags: Flags::Tree {
                    common,
                    own,
                    dir: self.build.clone(),
                },
            }],
            objects: self.needs(&self.build.join(path).with_extension("o")),
            convention,
            support: Vec::new(),
            judge: match aes {
                true => Judge::Algorithm {
                    alg: "cbc(aes)",
                    but: "",
                },
                false => Judge::Majority,
            },
            narrow: false,
            assembly: false,
        })
    }

    /// Returns the flags with which each object in the directory of `path` was compiled. The key is
    /// the object's name without the extension.
    fn commands(&self, path: &str) -> Result<HashMap<String, Vec<String>>, Error> {
        let parent = Path::new(path).parent().unwrap_or(Path::new(""));
        let dir = self.build.join(parent);
        let mut found = HashMap::new();
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let stem = name
                .strip_prefix('.')
                .and_then(|n| n.strip_suffix(".o.cmd"));
            let Some(stem) = stem else { continue };
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            if let Some(flags) = text.lines().next().and_then(flags) {
                found.insert(stem.to_string(), flags);
            }
        }
        match found.contains_key(stem(path)) {
            true => Ok(found),
            false => Err(Error::input(format!(
                "{path}: the tree's configuration does not build it, so its flags are unknown"
            ))),
        }
    }

    /// Returns the objects from the [`LEAVES`] directories that define symbols used by the object
    /// `own`, directly or indirectly.
    fn needs(&self, own: &Path) -> Vec<PathBuf> {
        let mut leaves: Vec<PathBuf> = Vec::new();
        for dir in LEAVES {
            let entries = fs::read_dir(self.build.join(dir)).into_iter().flatten();
            let files = entries.flatten().map(|e| e.path());
            leaves.extend(files.filter(|p| p.extension().is_some_and(|e| e == "o") && p != own));
        }
        leaves.sort();
        let mut needed: Vec<PathBuf> = Vec::new();
        let mut open = object::undefined(own);
        while let Some(symbol) = open.pop() {
            let provider = leaves.iter().find(|o| object::exports(o, &symbol));
            if let Some(provider) = provider.filter(|p| !needed.contains(p)) {
                open.extend(object::undefined(provider));
                needed.push(provider.clone());
            }
        }
        needed
    }
}

fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".c").unwrap_or(name)
}

/// Returns the code generation flags that the tree's makefile sets for this object in particular,
/// not for the whole directory. A flag qualifies if at most half of the other objects in the
/// directory have it.
fn own_flags(path: &str, commands: &HashMap<String, Vec<String>>) -> Vec<String> {
    let line = &commands[stem(path)];
    let elsewhere = |flag: &String| {
        let others = commands.iter().filter(|(name, _)| *name != stem(path));
        others.filter(|(_, line)| line.contains(flag)).count()
    };
    let few = (commands.len() - 1) / 2;
    let of_code = |f: &&String| f.starts_with("-f") || f.starts_with("-m");
    line.iter()
        .filter(of_code)
        .filter(|f| !f.starts_with("-fmacro-prefix-map") && elsewhere(f) <= few)
        .cloned()
        .collect()
}

/// Returns the flags of a saved command that can be reused with a different compiler and
/// optimization level. Flags for warnings, optimization levels, debug information and output files
/// are omitted.
fn flags(command: &str) -> Option<Vec<String>> {
    let (_, line) = command.split_once(":=")?;
    let line = line.split(" ; ").next().unwrap_or(line);
    let mut words = unquoted(line).into_iter().skip(1);
    let mut flags = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-c" => {}
            "-o" => drop(words.next()),
            "-include" | "-isystem" | "-I" | "-D" | "--param" => {
                flags.push(word);
                flags.extend(words.next());
            }
            w if w.starts_with("-W") || w.starts_with("-O") || w.starts_with("-g") => {}
            w if w.starts_with('-') => flags.push(word),
            _ => {}
        }
    }
    Some(flags)
}

/// Splits a line into words at blanks and removes quotes, like a shell.
fn unquoted(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
    for c in line.chars() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            (c, Some(_)) => word.push(c),
            ('\'' | '"', None) => (quote, begun) = (Some(c), true),
            (c, None) if c.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (c, None) => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_command_gives_its_flags() {
        let line = "savedcmd_a.o := gcc -Wp,-MMD,x -nostdinc -I./a -include b.h -O2 -g -Wall -fno-code-hoisting \
                    -DNAME='\"a\"' -c -o a.o /t/a.c ; objtool a.o";
        assert_eq!(
            flags(line).unwrap(),
            [
                "-nostdinc",
                "-I./a",
                "-include",
                "b.h",
                "-fno-code-hoisting",
                "-DNAME=\"a\""
            ]
        );
        assert_eq!(flags("nothing"), None);
    }

    #[test]
    fn what_stands_in_one_command_only_is_the_objects_own() {
        let line = |words: &str| words.split(' ').map(str::to_string).collect::<Vec<_>>();
        let commands: HashMap<_, _> = [
            ("aes_generic", "-fno-PIE -fno-code-hoisting -DA=1"),
            ("cbc", "-fno-PIE -DB=1"),
            ("xts", "-fno-PIE -DC=1"),
        ]
        .map(|(n, l)| (n.to_string(), line(l)))
        .into();
        assert_eq!(
            own_flags("crypto/aes_generic.c", &commands),
            ["-fno-code-hoisting"]
        );
        assert!(own_flags("crypto/cbc.c", &commands).is_empty());
    }
}
