//! What is to be expected of a cipher, from the text files in its folder of `kernel/ciphers`: `vectors.txt` and
//! `ranking.txt`. [`kiln_kbuild::blocks`] describes their format.

/// Known answers: names of folders, and texts.
pub(super) static VECTORS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/vectors.rs"));
/// Expected choices of an implementation: names of folders, and texts.
pub(super) static RANKINGS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/rankings.rs"));
