//! The expected results for each cipher, from the text files in the cipher's folder in
//! `kernel/ciphers`: `vectors.txt` and `ranking.txt`. [`kiln_kbuild::blocks`] describes the format
//! of these files.

/// Known answers. Each pair holds the name of a folder and the text of its `vectors.txt`.
pub(super) static VECTORS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/vectors.rs"));
/// Implementations that are expected to be chosen. Each pair holds the name of a folder and the
/// text of its `ranking.txt`.
pub(super) static RANKINGS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/rankings.rs"));
