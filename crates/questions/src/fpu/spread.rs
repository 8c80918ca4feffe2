//! Histograms of times, stored as flat fields of a row.

use std::borrow::Cow;
use std::collections::HashMap;

use kiln_kernel::cpu::Histogram;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Number of upper bounds in a histogram. The bounds are half octaves in nanoseconds: 16, 24, 32,
/// 48 ... 1048576.
const BOUNDS: usize = 33;

/// A histogram of times. Each bucket counts the times that are at most its bound but above the
/// previous bound; the last bucket counts times above all bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    counts: [u64; BOUNDS],
    more: u64,
}

impl Spread {
    /// Converts a histogram of TSC ticks to a histogram of nanoseconds.
    pub(crate) fn new(h: &Histogram<u64>, ticks_per_us: f64) -> Spread {
        let mut spread = Spread {
            counts: [0; BOUNDS],
            more: 0,
        };
        for (ticks, n) in h.buckets() {
            let ns = ticks as f64 / ticks_per_us * 1e3;
            match (0..BOUNDS).find(|&i| ns <= bound(i) as f64) {
                Some(i) => spread.counts[i] += n,
                None => spread.more += n,
            }
        }
        spread
    }
}

fn bound(i: usize) -> u64 {
    let octave = 16 << (i / 2);
    octave + if i % 2 == 1 { octave / 2 } else { 0 }
}

/// The histograms in a row. The fields for softirqs are `softirq_hist_ns_le_16` and so on, up to
/// `softirq_hist_ns_more`; sections have corresponding fields. A histogram that was not measured
/// has no fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spreads {
    /// Times from when a softirq is raised until its handler runs.
    pub softirq: Option<Spread>,
    /// Lengths of FPU sections.
    pub section: Option<Spread>,
}

const NAMES: [&str; 2] = ["softirq_hist_ns", "section_hist_ns"];

impl Serialize for Spreads {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        for (name, spread) in NAMES.iter().zip([&self.softirq, &self.section]) {
            let Some(spread) = spread else { continue };
            for (i, count) in spread.counts.iter().enumerate() {
                map.serialize_entry(&format!("{name}_le_{}", bound(i)), count)?;
            }
            map.serialize_entry(&format!("{name}_more"), &spread.more)?;
        }
        map.end()
    }
}

impl JsonSchema for Spreads {
    fn schema_name() -> Cow<'static, str> {
        "spreads".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "patternProperties": {
                "^softirq_hist_ns_(le_[0-9]+|more)$": {
                    "type": "integer",
                    "description": "Softirqs whose time from raise to handler is longer than the next smaller bound and \
                                    not longer than this one, in ns; `more`: longer than all."
                },
                "^section_hist_ns_(le_[0-9]+|more)$": {
                    "type": "integer",
                    "description": "The same for the lengths of FPU sections."
                }
            }
        })
    }
}

impl<'de> Deserialize<'de> for Spreads {
    /// Extracts the histograms from the fields of a row.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Spreads, D::Error> {
        let fields = HashMap::<String, Value>::deserialize(d)?;
        let [softirq, section] = NAMES.map(|name| {
            let count = |field: String| fields.get(&field)?.as_u64();
            let more = count(format!("{name}_more"))?;
            let bounds = std::array::from_fn(bound);
            let counts = bounds.map(|bound| count(format!("{name}_le_{bound}")).unwrap_or(0));
            Some(Spread { counts, more })
        });
        Ok(Spreads { softirq, section })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Holder {
        other: u32,
        #[serde(flatten)]
        spreads: Spreads,
    }

    #[test]
    fn spreads_are_flat_and_come_back() {
        let spread = |n: u64| Spread {
            counts: std::array::from_fn(|i| i as u64 * n),
            more: n,
        };
        let holder = Holder {
            other: 1,
            spreads: Spreads {
                softirq: Some(spread(1)),
                section: Some(spread(3)),
            },
        };
        let json = serde_json::to_value(&holder).unwrap();
        assert_eq!(json["softirq_hist_ns_le_24"], 1);
        assert_eq!(json["section_hist_ns_le_1048576"], 96);
        assert_eq!(json["section_hist_ns_more"], 3);
        let back: Holder = serde_json::from_value(json).unwrap();
        assert!(back.other == 1 && back.spreads == holder.spreads);
        let none: Holder = serde_json::from_str("{\"other\": 1}").unwrap();
        assert_eq!(none.spreads, Spreads::default());
    }

    #[test]
    fn bounds_grow_by_half_octaves() {
        let bounds: Vec<u64> = (0..BOUNDS).map(bound).collect();
        assert_eq!(bounds[..5], [16, 24, 32, 48, 64]);
        assert_eq!(bounds[BOUNDS - 1], 1 << 20);
        assert!(bounds.windows(2).all(|w| w[0] < w[1]));
    }
}
