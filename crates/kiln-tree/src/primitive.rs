//! Calls a tree's assembly functions directly (`tree/services/series.c`). `tree/primitives`
//! describes the functions.

use std::ffi::CString;
use std::fmt;
use std::ptr;
use std::rc::Rc;

use kiln_kernel::cipher::Kind;
use kiln_kernel::messages::{IvRoom, Messages, Needs, Unfit};

use crate::engine::Calls;
use crate::{raw, tiers, Host};

/// The table that describes the functions.
const TABLE: &str = include_str!("../../../tree/primitives");

/// Names of the calling conventions, in the order of `enum call`.
const CONVENTIONS: [&str; 32] = [
    "blocks",
    "len",
    "len-iv",
    "cbc-blocks",
    "stream-blocks",
    "iv-blocks",
    "xts",
    "xts-aesni",
    "ctr-by8",
    "xctr-by8",
    "gcm",
    "aegis",
    "chacha",
    "compress",
    "crc-last",
    "crc-first",
    "ghash",
    "polyval",
    "nh",
    "poly1305",
    "x25519",
    "aes-block",
    "aes-set-key",
    "aes-expandkey",
    "ctr64",
    "xctr",
    "hchacha",
    "finup2x",
    "crc-table",
    "gf128-mul",
    "ghash-blocks",
    "polyval-blocks",
];

/// Conventions that have 32-bit arguments. In each bit mask, a bit is set for every argument that
/// is 32 bits wide. The first mask is for the function itself, the others for its companions.
const NARROW: [(&str, &[u8]); 17] = [
    ("len", &[1 << 3]),
    ("len-iv", &[1 << 3]),
    ("xts", &[1 << 3]),
    ("xts-aesni", &[1 << 3]),
    ("ctr-by8", &[1 << 4]),
    ("xctr-by8", &[1 << 4 | 1 << 5]),
    ("ctr64", &[1 << 3]),
    ("xctr", &[1 << 3]),
    ("aes-block", &[1 << 1]),
    ("aes-set-key", &[1 << 2]),
    ("gcm", &[1 << 5, 1 << 3]),
    ("aegis", &[1 << 3, 0, 1 << 2, 1 << 2 | 1 << 3]),
    ("chacha", &[1 << 3 | 1 << 4]),
    ("hchacha", &[1 << 2]),
    ("finup2x", &[1 << 3]),
    ("ghash", &[1 << 2]),
    ("poly1305", &[1 << 3]),
];

/// A row in the table `tree/primitives`, describing one function.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Primitive {
    pub symbol: String,
    /// Calling convention, as an index into [`CONVENTIONS`].
    convention: usize,
    /// The algorithm that the function computes, in whole or in part.
    pub alg: String,
    /// Operation: `encrypt`, `decrypt`, `digest` or `derive`.
    pub op: String,
    /// ISA tier for which the function is written.
    pub tier: String,
    /// Driver that expands the key. The function reads the expanded key from this driver's context.
    pub key: Option<String>,
    /// Size of the key in bytes, if the function takes the key unexpanded.
    pub raw_key: usize,
    /// How to prepare the key, if the key does not come from a driver.
    pub prepare: Option<String>,
    /// Name of a constant in the tree that is passed as the key.
    pub table: Option<String>,
    /// Alignment of the key within the driver's context, in bytes.
    pub ctx_align: usize,
    /// Number of bytes to add to the key's address before it is passed to the function.
    pub offset: usize,
    /// Key size in bits, if the function supports only one.
    pub key_bits: Option<u32>,
    /// Name of another driver that must be available for the function to run.
    pub needs: Option<String>,
    /// An additional ISA tier that the CPU must support and `KILN_TIERS` must allow.
    pub cpu: Option<String>,
    /// Companion functions, which are called before or after the function.
    pub beside: Vec<String>,
    /// Number of bytes processed per call.
    pub chunk: usize,
    /// Block size in bytes. Set if the caller has to chain the blocks itself, or has to process the
    /// blocks that remain after the last whole chunk.
    pub block: usize,
    /// Minimum message length in bytes.
    pub least: usize,
    pub most: usize,
    /// Message lengths must be multiples of this number of bytes.
    pub multiple: usize,
    /// Required alignment of source and destination in bytes.
    pub align: usize,
    /// Value of the extra argument, for conventions that have one.
    pub extra: u64,
    /// Size of the result in bytes, if it differs from the size of the algorithm's result.
    pub state: Option<usize>,
    /// The source of the expected answers, if they do not come from a driver. This is either a
    /// function in the tree or a computation in Kiln.
    pub judge: Option<String>,
}

impl Primitive {
    /// Returns all rows of the table.
    pub fn all() -> Vec<Primitive> {
        parse(TABLE).expect("the table is well-formed: a test reads it")
    }

    /// Returns the primitive's functions, each with a bit mask of its 32-bit arguments. Functions
    /// that have no such arguments may be omitted.
    pub fn narrow(&self) -> Vec<(&str, u8)> {
        let name = CONVENTIONS[self.convention];
        let of = NARROW.iter().find(|(convention, _)| *convention == name);
        let functions = [&self.symbol].into_iter().chain(&self.beside);
        let pairs = functions.zip(of.map_or(&[][..], |(_, bits)| bits));
        pairs.map(|(f, bits)| (f.as_str(), *bits)).collect()
    }

    /// Returns whether the function takes two expanded keys, the second of them for the tweak.
    pub fn two_keys(&self) -> bool {
        CONVENTIONS[self.convention].starts_with("xts")
    }

    /// Returns whether the function takes an initial hash state.
    pub fn from_state(&self) -> bool {
        ["compress", "finup2x"].contains(&CONVENTIONS[self.convention])
    }

    /// Returns whether the function processes two messages per call.
    pub fn two_messages(&self) -> bool {
        CONVENTIONS[self.convention] == "finup2x"
    }

    /// Returns whether each message begins with its own key.
    pub fn key_in_message(&self) -> bool {
        CONVENTIONS[self.convention] == "poly1305"
    }

    /// Returns whether the extra argument is the number of AES rounds.
    pub fn takes_rounds(&self) -> bool {
        CONVENTIONS[self.convention] == "aes-block"
    }

    /// Returns whether this CPU supports the tier in the table's `cpu` column and `KILN_TIERS`
    /// allows it. Returns true if the column is empty.
    pub fn runs_here(&self) -> bool {
        self.cpu.as_deref().is_none_or(has)
    }
}

/// Returns whether the CPU has a tier's features and `KILN_TIERS` allows the tier. The hosted tree
/// sees these features under the same condition.
fn has(tier: &str) -> bool {
    macro_rules! all {
        ($($name:tt is $id:literal),+) => {
            $((is_x86_feature_detected!($name) && tiers::seen($id)))&&+
        };
    }
    match tier {
        "ssse3" => all!("ssse3" is "SSSE3"),
        "aes" => all!("aes" is "AES"),
        "avx" => all!("avx" is "AVX"),
        "avx-bmi2" => all!("avx" is "AVX", "bmi2" is "BMI2"),
        // Hiding AVX2 from the tree also hides BMI1.
        "avx2" => all!("avx2" is "AVX2", "bmi1" is "AVX2", "bmi2" is "BMI2"),
        "sha" => all!("sha" is "SHA", "sse4.1" is "SSE4_1"),
        "avx512" => all!("avx512f" is "AVX512F", "avx512vl" is "AVX512VL"),
        "avx512vl" => has("avx512") && all!("avx512bw" is "AVX512BW"),
        "pclmul" => all!("pclmulqdq" is "PCLMULQDQ", "sse4.2" is "SSE4_2"),
        "pclmul-avx" => has("pclmul") && has("avx"),
        "vpclmul-avx2" => has("avx2") && all!("vpclmulqdq" is "VPCLMULQDQ"),
        "vpclmul-avx512" => has("avx512vl") && has("vpclmul-avx2"),
        "gfni" => has("avx") && all!("gfni" is "GFNI"),
        "adx" => all!("adx" is "AVX2", "bmi2" is "BMI2"),
        _ => tier == "generic",
    }
}

fn parse(table: &str) -> Result<Vec<Primitive>, String> {
    let lines = table
        .lines()
        .filter(|l| !l.starts_with(['#', '-']) && !l.trim().is_empty());
    lines
        .map(|line| row(line).map_err(|why| format!("{why}: {line}")))
        .collect()
}

fn row(line: &str) -> Result<Primitive, String> {
    let mut words = line.split_whitespace();
    let mut next = || words.next().ok_or("too short");
    let (symbol, convention) = (next()?.to_string(), next()?);
    let convention = CONVENTIONS.iter().position(|c| *c == convention);
    let mut row = Primitive {
        symbol,
        convention: convention.ok_or("no such convention")?,
        alg: next()?.to_string(),
        op: next()?.to_string(),
        tier: next()?.to_string(),
        ctx_align: 1,
        most: usize::MAX,
        multiple: 1,
        align: 1,
        ..Primitive::default()
    };
    for word in words {
        let (rule, value) = word.split_once('=').ok_or("a rule without a value")?;
        let number = || {
            value
                .parse::<usize>()
                .map_err(|_| format!("{rule} is not a number"))
        };
        let text = || Some(value.to_string());
        match rule {
            "key" => row.key = text(),
            "raw-key" => row.raw_key = number()?,
            "prepare" => row.prepare = text(),
            "table" => row.table = text(),
            "ctx-align" => row.ctx_align = number()?,
            "offset" => row.offset = number()?,
            "key-bits" => row.key_bits = Some(number()? as u32),
            "needs" => row.needs = text(),
            "cpu" => row.cpu = text(),
            "beside" => row.beside = value.split(',').map(String::from).collect(),
            "chunk" => row.chunk = number()?,
            "block" => row.block = number()?,
            "least" => row.least = number()?,
            "most" => row.most = number()?,
            "multiple" => row.multiple = number()?,
            "align" => row.align = number()?,
            "extra" => row.extra = number()? as u64,
            "state" => row.state = Some(number()?),
            "judge" => row.judge = text(),
            _ => return Err(format!("unknown rule {rule}")),
        }
    }
    Ok(row)
}

/// A primitive whose symbols have been found in a tree.
pub struct Bound {
    calls: Rc<Calls>,
    name: CString,
    convention: usize,
    chunk: usize,
    block: usize,
    extra: u64,
    functions: [u64; 4],
}

/// Name of a symbol that the tree either lacks or defines more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Pointers to the keys that a primitive uses.
#[derive(Clone, Copy)]
pub struct Keys {
    key: *mut u8,
    key2: *mut u8,
}

impl Keys {
    /// Finds the keys in drivers' contexts. The row states the alignment and the offset of a key.
    /// For XTS, the tweak key is in a second context.
    ///
    /// The engines must outlive all calls that use the returned keys.
    pub fn in_contexts(
        row: &Primitive,
        key: &crate::engine::Engine,
        tweak: Option<&crate::engine::Engine>,
    ) -> Keys {
        let at = |engine: &crate::engine::Engine| {
            let context = engine.context();
            if context.is_null() {
                return context;
            }
            let aligned = context.wrapping_add(context.align_offset(row.ctx_align));
            aligned.wrapping_add(row.offset)
        };
        Keys {
            key: at(key),
            key2: tweak.map_or(ptr::null_mut(), at),
        }
    }

    pub fn raw(key: &[u8]) -> Keys {
        Keys {
            // The pointer's C type is not const, but the functions only read the key.
            key: key.as_ptr().cast_mut(),
            key2: ptr::null_mut(),
        }
    }

    /// Uses a constant in the tree as the key. The row states the constant's name and an offset to
    /// add to its address.
    ///
    /// # Errors
    /// Fails if the tree lacks the symbol or defines it more than once.
    pub fn in_tree(row: &Primitive, host: &Host) -> Result<Option<Keys>, Missing> {
        let Some(name) = &row.table else {
            return Ok(None);
        };
        let found = host.image.symbol(name);
        let at = found.ok_or_else(|| Missing(name.clone()))? as usize + row.offset;
        Ok(Some(Keys {
            key: ptr::with_exposed_provenance_mut(at),
            key2: ptr::null_mut(),
        }))
    }
}

impl Bound {
    /// Looks up a function and its companions in the tree. `symbol` is either the function that the
    /// row describes or the function that checks its answers.
    ///
    /// # Errors
    /// Returns the first symbol that the tree lacks or defines more than once.
    pub fn find(
        calls: &Rc<Calls>,
        host: &Host,
        row: &Primitive,
        symbol: &str,
    ) -> Result<Bound, Missing> {
        let mut functions = [0; 4];
        let names = [symbol]
            .into_iter()
            .chain(row.beside.iter().map(String::as_str));
        for (to, name) in functions.iter_mut().zip(names) {
            let found = host.image.symbol(name);
            *to = found.ok_or_else(|| Missing(name.to_string()))?;
        }
        Ok(Bound {
            calls: calls.clone(),
            name: CString::new(symbol).unwrap_or_default(),
            convention: row.convention,
            chunk: row.chunk,
            block: row.block,
            extra: row.extra,
            functions,
        })
    }

    /// Makes `calls` calls within one of the tree's FPU sections, cycling through the messages.
    /// `start` is the initial state. `digest` is the size of the result, or 0 if the result is as
    /// long as the message.
    ///
    /// # Errors
    /// Fails if the messages exceed their buffers.
    ///
    /// # Safety
    /// The keys must be valid and of the kind that the function takes, and the function must accept
    /// the message length.
    pub unsafe fn run(
        &self,
        keys: Keys,
        start: &[u8],
        digest: usize,
        messages: &mut Messages<'_>,
        calls: u64,
    ) -> Result<(), Unfit> {
        let needs = Needs {
            kind: match digest {
                0 => Kind::Aead,
                _ => Kind::Hash,
            },
            iv: 0,
            digest,
            tags_apart: false,
            copies_ivs: true,
        };
        // Each state starts on its own cache line, so the total is a multiple of 64 bytes.
        assert!(start.len() % 64 == 0);
        let mut states = vec![[0u64; 8]; messages.count * start.len() / 64 + 1];
        let room = states.as_mut_ptr().cast::<u8>();
        let mut single = IvRoom::default();
        let mut raw = raw::Primitive {
            call: self.convention as u64,
            fn_: self.functions,
            key: keys.key,
            key2: keys.key2,
            chunk: self.chunk as u64,
            block: self.block as u64,
            extra: self.extra,
            start: start.as_ptr(),
            start_size: start.len() as u64,
            states: room.wrapping_add(room.align_offset(64)),
            digest: digest as u64,
            m: messages.raw(&needs, &mut single, calls)?,
        };
        self.calls.name(&self.name);
        // SAFETY: the argument points to the structure that the function takes, and the buffers
        // hold all messages. The caller guarantees that the keys and the message length suit the
        // function.
        let result = unsafe { self.calls.series((&raw mut raw).cast()) };
        assert_eq!(result, 0, "series.c knows all conventions");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed() {
        let all = parse(TABLE).unwrap();
        let mut symbols: Vec<_> = all.iter().map(|p| p.symbol.as_str()).collect();
        symbols.sort_unstable();
        symbols.dedup();
        assert!(symbols.len() >= 100, "{}", symbols.len());
        for p in &all {
            assert!(
                ["encrypt", "decrypt", "digest", "derive"].contains(&p.op.as_str()),
                "{p:?}"
            );
            assert!(
                p.ctx_align.is_power_of_two() && p.align.is_power_of_two(),
                "{p:?}"
            );
            // Messages are placed at multiples of 64 bytes, so a function cannot require a larger
            // alignment.
            assert!(p.align <= 64 && p.beside.len() <= 3, "{p:?}");
            assert!(p.least % p.multiple == 0 && p.least <= p.most, "{p:?}");
            assert!(
                p.key.is_some() || p.needs.is_some() || p.cpu.is_some(),
                "{p:?}"
            );
            let keys = [p.key.is_some(), p.prepare.is_some(), p.table.is_some()];
            assert!(keys.into_iter().filter(|k| *k).count() <= 1, "{p:?}");
            assert!(
                p.cpu
                    .as_deref()
                    .is_none_or(|c| c == "generic" || !has("no such tier")),
                "{p:?}"
            );
        }
        let twice = |a: &Primitive| {
            let same = |b: &&Primitive| (&a.symbol, &a.op, &a.alg) == (&b.symbol, &b.op, &b.alg);
            all.iter().filter(same).count()
        };
        assert!(all.iter().all(|p| twice(p) == 1));
    }

    #[test]
    fn arguments_of_32_bits_are_those_of_conventions() {
        assert!((NARROW.iter()).all(|(name, _)| CONVENTIONS.contains(name)));
        let all = Primitive::all();
        let of = |symbol: &str| all.iter().find(|p| p.symbol == symbol).unwrap().narrow();
        assert_eq!(of("aesni_ecb_enc"), [("aesni_ecb_enc", 1 << 3)]);
        assert_eq!(of("aesni_enc"), []);
        assert_eq!(of("aesni_xts_enc"), [("aesni_xts_enc", 1 << 3)]);
    }

    #[test]
    fn the_conventions_are_those_of_the_services() {
        let source = include_str!("../../../tree/services/series.c");
        let list = source
            .split_once("enum call {")
            .unwrap()
            .1
            .split_once('}')
            .unwrap()
            .0;
        let names: Vec<String> = list
            .split(',')
            .map(|n| {
                n.trim()
                    .trim_start_matches("CALL_")
                    .to_lowercase()
                    .replace('_', "-")
            })
            .filter(|n| !n.is_empty())
            .collect();
        assert_eq!(names, CONVENTIONS);
    }

    #[test]
    fn faults_of_a_table_are_told() {
        for (line, why) in [
            ("a", "too short"),
            ("a no-such b encrypt t", "no such convention"),
            ("a len b encrypt t least=x", "least is not a number"),
            ("a len b encrypt t colour=red", "unknown rule colour"),
            ("a len b encrypt t least", "without a value"),
        ] {
            assert!(parse(line).unwrap_err().contains(why), "{line}");
        }
    }
}
