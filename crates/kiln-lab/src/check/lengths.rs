//! Messages that must be refused: shorter than a block.

use std::io;

use kiln_kernel::xts::{Key, Op, BLOCK};

use super::bench::{Bench, Replay};
use super::random::{Failure, Tally};
use super::subject::{Subject, ALG};

/// Lengths 0 to 15, each key size, both directions, in place and not: refused with nothing written.
pub fn run(subject: &Subject<'_>) -> io::Result<Tally> {
    let mut bench = Bench::new()?;
    let mut tally = Tally::default();
    let replay = format!("kiln test '{ALG}' --impl {} --cases 0", subject.name);
    for key_len in [32, 48, 64] {
        let raw: Vec<u8> = (0..key_len).collect();
        let key = Key::new(&raw).expect("32, 48 or 64 bytes");
        for op in [Op::Encrypt, Op::Decrypt] {
            for in_place in [false, true] {
                for len in 0..BLOCK {
                    tally.cases += 1;
                    if let Err(what) =
                        bench.refuses(subject, &key, op, len, in_place, Replay(&replay, None))
                    {
                        tally.failed += 1;
                        tally.failures.push(Failure {
                            what: format!("{op:?}, in place {in_place}: {what}"),
                            replay: replay.clone(),
                        });
                    }
                }
            }
        }
    }
    Ok(tally)
}
