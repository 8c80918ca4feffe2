//! How fast the ciphers are, in plain language.

use serde_json::Value;

use super::{figure, has, library, number, word};
use crate::speed;
use crate::survey::question::Question;
use crate::survey::row::Row;

/// A usual length of a disk's sector, of which speeds are told.
const USUAL: f64 = 4096.0;

/// The usual length, or the longest if there was no time for that.
fn length(rows: &[&Value]) -> Option<f64> {
    let lens = rows.iter().filter_map(|r| number(r, "len"));
    lens.filter(|len| *len <= USUAL).reduce(f64::max)
}

/// Kiln's fastest at the usual length.
fn fastest<'a>(rows: &[&'a Value]) -> Option<&'a Value> {
    let len = length(rows);
    let own = |r: &&&Value| has(r, &[("provider", "kiln"), ("op", "encrypt")]);
    let usual = rows.iter().filter(own).filter(|r| number(r, "len") == len);
    let with = usual.filter_map(|r| Some((number(r, "cycles_per_op")?, *r)));
    with.min_by(|a, b| a.0.total_cmp(&b.0)).map(|f| f.1)
}

pub(super) fn throughput(rows: &[&Value]) -> Option<Row> {
    let row = fastest(rows)?;
    let (mb, cycles) = (number(row, "mb_per_s")?, number(row, "cycles_per_op")?);
    let end = |field| Some(mb * cycles / number(row, field)?);
    let limit = match number(row, "limit_cycles") {
        Some(limit) => format!(
            ", {:.0} % of what its AES unit can do",
            100.0 * limit / cycles
        ),
        None => String::new(),
    };
    let text = format!(
        "AES-256-XTS runs at {} GB/s a core{limit} ({} B, {})",
        figure(mb / 1e3),
        number(row, "len")?,
        word(row, "impl")
    );
    let new = Row::new(Question::Speed, mb, "mb_per_s", text);
    Some(new.within(end("ci_high"), end("ci_low")))
}

pub(super) fn beside_peers(rows: &[&Value]) -> Option<Row> {
    let len = length(rows);
    let usual = |r: &&&Value| number(r, "len") == len;
    let row = rows
        .iter()
        .filter(usual)
        .find(|r| r["best_peer"].is_string())?;
    let inverse = |field| number(row, field).map(|r| 1.0 / r);
    let ratio = inverse("best_peer_ratio")?;
    let text = format!(
        "That is {} times as fast as {}, the fastest other library here",
        figure(ratio),
        library(word(row, "best_peer_provider"))
    );
    let new = Row::new(Question::Speed, ratio, "times", text);
    Some(new.within(
        inverse("best_peer_ratio_high"),
        inverse("best_peer_ratio_low"),
    ))
}

pub(super) fn beside_tree(rows: &[&Value]) -> Option<Row> {
    let (own, len) = (fastest(rows)?, length(rows));
    let of_tree = |r: &&&Value| word(r, "provider").starts_with("linux-");
    let wanted = [("op", "encrypt"), ("level", "primitive")];
    let usual = |r: &&&Value| has(r, &wanted) && number(r, "len") == len;
    let all = rows.iter().filter(of_tree).filter(usual);
    let with = all.filter_map(|r| Some((number(r, "cycles_per_op")?, *r)));
    let (cycles, tree) = with.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let ratio = cycles / number(own, "cycles_per_op")?;
    let text = format!(
        "The fastest of {} takes {} times as long",
        library(word(tree, "provider")),
        figure(ratio)
    );
    Some(Row::new(Question::Speed, ratio, "times", text))
}

pub(super) fn all_ciphers(rows: &[&Value]) -> Option<Row> {
    let typed = rows.iter().map(|r| serde_json::from_value((*r).clone()));
    let typed: Vec<speed::Row> = typed.filter_map(Result::ok).collect();
    let all = speed::Summary::of(&typed)?;
    let mut algs: Vec<&str> = typed.iter().map(|r| &*r.alg).collect();
    algs.dedup();
    let (short, long) = (all.short?, all.long?);
    let text = format!(
        "Of {} figures of {} algorithms the best library is ahead in {}; on average Kiln is {} times as fast up to 64 B, {} \
         from 512 B",
        all.rows,
        algs.len(),
        all.slower,
        figure(short),
        figure(long)
    );
    Some(Row::new(Question::Speed, long, "times", text))
}
