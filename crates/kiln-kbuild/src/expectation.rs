//! Parses the known answers, which are text files in the cipher folders, and generates a C table
//! from them.
//!
//! A file consists of blocks separated by empty lines. A block consists of lines of the form `name
//! = value`. A line `# ...` gives the source of all values up to the next such line.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::{cipher_folders, Error};

/// Maximum length in bytes of a key, text or digest in the table. If longer answers were included,
/// the C source of the table would grow to 2 MB. The module tests longer texts by comparing its
/// drivers with scalar code.
const LONGEST: usize = 2048;

/// A block of a file: consecutive lines, ended by an empty line.
pub struct Block<'a> {
    /// The last comment before or inside the block, which gives the values' source.
    pub source: &'a str,
    /// Name-value pairs, in the order in which they occur in the file.
    pub fields: Vec<(&'a str, &'a str)>,
}

/// Returns the blocks of a file, except those that consist only of comments.
///
/// # Panics
/// Panics if a line is not of the form `name = value`. The files are part of the program, so a
/// malformed line is a bug.
pub fn blocks<'a>(file: &str, text: &'a str) -> Vec<Block<'a>> {
    let mut source = "";
    let mut blocks = Vec::new();
    for lines in text.split("\n\n") {
        let mut fields = Vec::new();
        for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
            if let Some(comment) = line.strip_prefix('#') {
                source = comment.trim();
                continue;
            }
            let field = line.split_once('=');
            let (name, value) = field.unwrap_or_else(|| panic!("{file}: {line}"));
            fields.push((name.trim(), value.trim()));
        }
        if !fields.is_empty() {
            blocks.push(Block { source, fields });
        }
    }
    blocks
}

/// Converts a value to bytes. A value is written as hex digits, as `N * hex`, which repeats the
/// bytes N times, or as `"text"`.
///
/// # Panics
/// Panics if the value is malformed. The files are part of the program, so a malformed value is a
/// bug.
pub fn bytes(text: &str) -> Vec<u8> {
    if let Some((n, of)) = text.split_once('*') {
        return bytes(of.trim()).repeat(n.trim().parse().expect(text));
    }
    match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        Some(text) => text.as_bytes().to_vec(),
        None => hex(text),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    assert!(digits.len() % 2 == 0, "an odd number of digits: {text}");
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hex digits"))
        .collect()
}

/// Generates a C header that contains the known answers of all ciphers. The array
/// `kiln_known_bytes` contains the bytes of all answers. Each entry of `kiln_known` contains the
/// algorithm, an offset into this array, and the lengths of the parts stored there in sequence:
/// key, IV, associated data, text, ciphertext, tag or digest.
///
/// # Errors
/// Fails if a file or directory cannot be read.
///
/// # Panics
/// Panics if a file is malformed.
pub fn known_answers(kernel_dir: &Path) -> Result<String, Error> {
    let (mut all, mut rows) = (Vec::new(), String::new());
    for folder in cipher_folders(kernel_dir)? {
        let path = kernel_dir.join("ciphers").join(folder).join("vectors.txt");
        if !path.is_file() {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|e| Error::io(&path, e))?;
        for block in blocks(&path.to_string_lossy(), &text) {
            add_answer(&block, &mut all, &mut rows);
        }
    }
    let bytes: Vec<String> = all
        .chunks(32)
        .map(|line| line.iter().map(|b| format!("{b},")).collect())
        .collect();
    Ok(format!(
        "/* Generated from kernel/ciphers/NAME/vectors.txt by crates/kiln-kbuild/src/expectation.rs. */\n\
         static const u8 kiln_known_bytes[] __initconst = {{\n{}\n}};\n\n\
         static const struct kiln_known {{\n\tconst char *alg;\n\tu32 at, key, iv, aad, text, cipher, tag;\n\
         }} kiln_known[] __initconst = {{\n{rows}}};\n",
        bytes.join("\n")
    ))
}

fn add_answer(block: &Block, all: &mut Vec<u8>, rows: &mut String) {
    let find = |names: &[&str]| {
        let field = block.fields.iter().find(|(name, _)| names.contains(name));
        field.map_or("", |(_, value)| value)
    };
    let parts = [
        &["key"][..],
        &["iv"],
        &["aad"],
        &["pt", "msg"],
        &["ct"],
        &["tag", "md"],
    ];
    let parts = parts.map(|names| bytes(find(names)));
    if parts.iter().any(|part| part.len() > LONGEST) {
        return;
    }
    let _ = write!(rows, "\t{{ {:?}, {}", find(&["alg"]), all.len());
    for part in parts {
        let _ = write!(rows, ", {}", part.len());
        all.extend(part);
    }
    rows.push_str(" },\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_every_answer_that_is_not_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let cipher = dir.path().join("ciphers/toy");
        fs::create_dir_all(&cipher).unwrap();
        fs::write(cipher.join("toy.c"), "").unwrap();
        let vectors = "# here\nalg = toy\nkey = 0102\npt = \"a\"\nct = ff\n\nalg = toy\nmsg = 2049 * 00\nmd = 01\n";
        fs::write(cipher.join("vectors.txt"), vectors).unwrap();
        let table = known_answers(dir.path()).unwrap();
        assert!(table.contains("\n1,2,97,255,\n"), "{table}");
        assert!(
            table.contains("{ \"toy\", 0, 2, 0, 0, 1, 1, 0 },\n};"),
            "{table}"
        );
    }
}
