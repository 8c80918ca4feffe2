//! A cipher's expected results, from the text files in its folder in `kernel/ciphers`:
//! `vectors.txt` and `ranking.txt`. [`kiln_kbuild::blocks`] describes their format.

/// Known answers: pairs of a folder name and the text of its file.
pub(super) static VECTORS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/vectors.rs"));
/// Expected choices of implementations: pairs of a folder name and the text of its file.
pub(super) static RANKINGS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/rankings.rs"));
