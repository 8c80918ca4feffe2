//! A load's throughput and queue length over time, stored as flat fields of a row.

use std::borrow::Cow;
use std::collections::HashMap;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::timeline::Timeline;

/// Number of points in a course. The duration of the load is divided into this many equal steps.
const STEPS: usize = 60;

/// Throughput and queue length in equal time steps, averaged over the rounds. `t_ms` is the length
/// of a step; `t_high_from_ms` and `t_high_to_ms` are the start and end of the high phase;
/// `t_mb_per_s_0` ... and `t_queued_0` ... are the values in each step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Course {
    ms: f64,
    high: (f64, f64),
    mb_per_s: Vec<f64>,
    queued: Vec<f64>,
}

impl Course {
    /// Creates a course from a timeline. `phases` contains the times at which the load's three
    /// phases end, in ms.
    pub(crate) fn new(timeline: &Timeline, phases: [f64; 3]) -> Course {
        let ms = phases[2] / STEPS as f64;
        let steps = |points: Vec<(f64, f64)>| -> Vec<f64> {
            let mut last = 0.0;
            let step = |i: usize| {
                let within = i as f64 * ms..(i + 1) as f64 * ms;
                let some = points.iter().filter(|p| within.contains(&p.0)).map(|p| p.1);
                let (sum, n) = some.fold((0.0, 0), |(sum, n), v| (sum + v, n + 1));
                if n > 0 {
                    last = sum / f64::from(n);
                }
                (last * 100.0).round() / 100.0
            };
            (0..STEPS).map(step).collect()
        };
        Course {
            ms,
            high: (phases[0], phases[1]),
            mb_per_s: steps(timeline.throughput()),
            queued: steps(timeline.queue()),
        }
    }
}

impl Serialize for Course {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("t_ms", &self.ms)?;
        map.serialize_entry("t_high_from_ms", &self.high.0)?;
        map.serialize_entry("t_high_to_ms", &self.high.1)?;
        for (name, steps) in [("t_mb_per_s", &self.mb_per_s), ("t_queued", &self.queued)] {
            for (i, value) in steps.iter().enumerate() {
                map.serialize_entry(&format!("{name}_{i}"), value)?;
            }
        }
        map.end()
    }
}

impl JsonSchema for Course {
    fn schema_name() -> Cow<'static, str> {
        "course".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "properties": {
                "t_ms": {
                    "type": "number", "unit": "ms",
                    "description": "For a load of packets: the length of each of the steps into which time is divided."
                },
                "t_high_from_ms": {
                    "type": "number", "unit": "ms",
                    "description": "When the high phase begins."
                },
                "t_high_to_ms": {
                    "type": "number", "unit": "ms",
                    "description": "When the high phase ends."
                }
            },
            "patternProperties": {
                "^t_mb_per_s_[0-9]+$": {
                    "type": "number", "unit": "10^6 bytes/s",
                    "description": "Payload received in step 0, 1, …, the mean of the rounds."
                },
                "^t_queued_[0-9]+$": {
                    "type": "number",
                    "description": "Requests waiting for cryptd in step 0, 1, …, the mean of the rounds."
                }
            }
        })
    }
}

impl<'de> Deserialize<'de> for Course {
    /// Extracts the course from the fields of a row. Fails if `t_ms` is missing, so that a
    /// flattened `Option<Course>` becomes `None`.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Course, D::Error> {
        let fields = HashMap::<String, Value>::deserialize(d)?;
        let number = |field: &str| fields.get(field).and_then(Value::as_f64);
        let steps = |name: &str| {
            let step = |i| number(&format!("{name}_{i}"));
            (0..STEPS).map(|i| step(i).unwrap_or(0.0)).collect()
        };
        let end = |name| number(name).unwrap_or(0.0);
        Ok(Course {
            ms: number("t_ms").ok_or_else(|| serde::de::Error::missing_field("t_ms"))?,
            high: (end("t_high_from_ms"), end("t_high_to_ms")),
            mb_per_s: steps("t_mb_per_s"),
            queued: steps("t_queued"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_kernel::esp::{Outcome, Sample};

    #[derive(Serialize, Deserialize)]
    struct Holder {
        #[serde(flatten)]
        course: Option<Course>,
    }

    #[test]
    fn a_steady_load_is_as_much_in_each_step_and_comes_back() {
        let mut line = Timeline::default();
        line.add(&Outcome {
            samples: (0..200)
                .map(|i| Sample {
                    ms: f64::from(i),
                    bytes: i as u64 * 2000,
                    queued: 7,
                    ..Sample::default()
                })
                .collect(),
            ..Outcome::default()
        });
        let course = Course::new(&line, [50.0, 100.0, 190.0]);
        assert_eq!(course.mb_per_s.len(), STEPS);
        assert!(
            course.mb_per_s.iter().all(|mb| (mb - 2.0).abs() < 0.01),
            "{course:?}"
        );
        assert!(course.queued.iter().all(|q| *q == 7.0));
        let json = serde_json::to_value(Holder {
            course: Some(course.clone()),
        })
        .unwrap();
        assert_eq!(json["t_high_from_ms"], 50.0);
        assert_eq!(json["t_queued_59"], 7.0);
        let back: Holder = serde_json::from_value(json).unwrap();
        assert_eq!(back.course, Some(course));
        let none: Holder = serde_json::from_str("{\"a\": 1}").unwrap();
        assert_eq!(none.course, None);
    }
}
