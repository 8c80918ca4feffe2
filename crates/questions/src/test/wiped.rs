//! Searches the memory of the crypto API for the keys of transforms.

use kiln_kernel::cipher::{Context, Impl};
use kiln_kernel::crypto::{memory_holds, Transform};

/// Maximum number of word pairs from one context to search for in memory.
const LOOKED_FOR: usize = 4;

/// Sets a key, frees the transform, and checks that neither the key nor the context derived from it
/// remains in memory. As a control, the context must be in memory before the transform is freed.
pub(super) fn check(imp: Impl, key: &[u8], context: &[u8]) -> Result<(), String> {
    let patterns = patterns(imp, key, context)?;
    if patterns.is_empty() {
        return Err("nothing of its context can be told from other memory".into());
    }
    let mut transform = Transform::open(imp.kind(), imp.driver())
        .map_err(|e| format!("no transform of {}: {e}", imp.driver()))?;
    transform
        .set_key(key)
        .map_err(|e| format!("setkey of {} bytes: {e}", key.len()))?;
    let there = patterns.iter().filter(|p| memory_holds(**p)).count();
    drop(transform);
    // If the context is not found even before the transform is freed, the test is searching the
    // wrong memory.
    if there < patterns.len() {
        return Err(format!(
            "{there} of {} parts of its context were in memory",
            patterns.len()
        ));
    }
    let left = patterns.iter().filter(|p| memory_holds(**p)).count();
    if left > 0 {
        return Err(format!(
            "{left} of {} parts of its context are left in memory",
            patterns.len()
        ));
    }
    match key.len() >= 16 && memory_holds(words(key)) {
        true => Err("the key is left in memory".into()),
        false => Ok(()),
    }
}

fn words(bytes: &[u8]) -> [u64; 2] {
    let word =
        |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
    [word(0), word(1)]
}

/// Returns pairs of words from both ends of the context that are unlikely to occur elsewhere in
/// memory. Only words that depend on the key are used, because the context of another live
/// transform may contain the algorithm's constants, such as those of BLAKE2.
fn patterns(imp: Impl, key: &[u8], context: &[u8]) -> Result<Vec<[u64; 2]>, String> {
    let other: Vec<u8> = key.iter().map(|b| !b).collect();
    let other = Context::new(imp, &other).map_err(|e| format!("another key: {e:?}"))?;
    let telling = |p: &[u64; 2]| {
        p.iter()
            .all(|w| w.to_le_bytes().iter().filter(|b| **b != 0).count() > 5)
    };
    let all: Vec<[u64; 2]> = context
        .chunks_exact(16)
        .zip(other.bytes().chunks_exact(16))
        .filter(|(own, other)| own[..8] != other[..8] && own[8..] != other[8..])
        .map(|(own, _)| words(own))
        .filter(telling)
        .collect();
    let ends = all
        .iter()
        .take(LOOKED_FOR / 2)
        .chain(all.iter().rev().take(LOOKED_FOR / 2));
    Ok(ends.copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another transform of the same algorithm remains in memory during the check. The constants in
    /// its context must not be mistaken for the freed key.
    #[test]
    fn constants_of_the_algorithm_are_nobodys_key() {
        for imp in Impl::all()
            .into_iter()
            .filter(|i| i.is_keyed() && i.tier().usable())
        {
            let len = *imp.key_sizes().last().expect("it has a key");
            let key: Vec<u8> = (1..=len).map(|i| (i * 7) as u8).collect();
            let context = Context::new(imp, &key).unwrap();
            let context = &context.bytes()[..imp.context_size()];
            let mut other = Transform::open(imp.kind(), imp.driver()).unwrap();
            other.set_key(&vec![0x35; len]).unwrap();
            assert_eq!(check(imp, &key, context), Ok(()), "{imp:?}");
            drop(other);
        }
    }

    /// As a control, checks that the search finds a context that has not been freed.
    #[test]
    fn a_key_that_is_left_is_found() {
        let imp = Impl::find_all("ctr(aes)")[0];
        // Use a key that differs from those of the test above, which may run at the same time and
        // would otherwise have parts of this key in memory.
        let key: Vec<u8> = (1..=32).map(|i| i * 5 + 1).collect();
        let context = Context::new(imp, &key).unwrap();
        let context = &context.bytes()[..imp.context_size()];
        assert_eq!(check(imp, &key, context), Ok(()));
        let mut kept = Transform::open(imp.kind(), imp.driver()).unwrap();
        kept.set_key(&key).unwrap();
        let why = check(imp, &key, context).unwrap_err();
        assert!(why.contains("are left in memory"), "{why}");
        drop(kept);
        assert_eq!(check(imp, &key, context), Ok(()));
    }
}
