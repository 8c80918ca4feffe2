//! How a control queue should wait, in plain language.

use serde_json::Value;

use super::{figure, has, number, thousands};
use crate::ctrlq::paper;
use crate::survey::question::Question;
use crate::survey::row::Row;

/// Workers of the published figures.
const WORKERS: f64 = 8.0;

pub(super) fn waiting(rows: &[&Value]) -> Option<Row> {
    let question = Question::Ctrlq;
    // The paper's device hands each request to another thread.
    let of = |mode: &str, ctrl: &str| {
        let same = |r: &&&Value| {
            has(r, &[("mode", mode), ("ctrl", ctrl)]) && number(r, "workers") == Some(WORKERS)
        };
        rows.iter().copied().find(|r| same(&r))
    };
    let rate = |r: &Value| number(r, "ops_per_s");
    let (wait, poll) = (of("wait", "thread")?, of("poll", "thread")?);
    let ratio = rate(wait)? / rate(poll)?;
    let k = |x: f64| match x < 1e3 {
        true => thousands(x),
        false => format!("{} K", figure(x / 1e3)),
    };
    let tail = |r: &Value| number(r, "lat_us_p999").map_or("-".to_string(), |us| figure(us / 1e3));
    let at_once = match (of("wait", "inline"), of("poll", "inline")) {
        (Some(w), Some(p)) => format!(
            "; of a device that answers at once {} and {}",
            k(rate(w)?),
            k(rate(p)?)
        ),
        _ => String::new(),
    };
    let published = paper::WAIT_OPS_PER_S / paper::POLL_OPS_PER_S[1].1;
    let text = format!(
        "Eight workers get {} operations a second by waiting, {} by polling; published 200 K and 40 K{at_once}; p99.9 is {} and \
         {} ms",
        k(rate(wait)?),
        k(rate(poll)?),
        tail(wait),
        tail(poll)
    );
    Some(Row::new(question, ratio, "times", text).beside(question, published))
}
