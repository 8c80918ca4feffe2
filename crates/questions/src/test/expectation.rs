//! Expected results of a cipher, from the text files in its folder of `kernel/ciphers`: `vectors.txt` and
//! `ranking.txt`. No C code reads them.
//!
//! A file has blocks, separated by empty lines; a block has lines `name = value`. A line `# ...` states the source of
//! the values from there to the next such line.

/// Known answers: names of folders, and texts.
pub(super) static VECTORS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/vectors.rs"));
/// Expected choices of an implementation: names of folders, and texts.
pub(super) static RANKINGS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/rankings.rs"));

/// Lines that belong together.
pub(super) struct Block<'a> {
    /// The last comment in or before the block.
    pub source: &'a str,
    /// Names and values, in order.
    pub fields: Vec<(&'a str, &'a str)>,
}

/// The blocks of a file that have fields.
///
/// # Panics
/// If a line is not `name = value`. The files are part of the program.
pub(super) fn blocks<'a>(file: &str, text: &'a str) -> Vec<Block<'a>> {
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
