//! Metrics in Prometheus's text form, on a Unix socket: one answer of HTTP 1.0 a connection.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use kiln_virtio::Guest;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::tally::{Count, Tally, CLASSES, STATUSES};

/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest request that is read.
const MAX_ASKED: usize = 4096;

/// Names of statuses (5.9.7).
const STATUS: [&str; STATUSES] = [
    "ok", "err", "badmsg", "notsupp", "invsess", "nospc", "other",
];

/// What is measured of a device.
pub(crate) struct Meter {
    tallies: Vec<Arc<Tally>>,
    guests: Mutex<Vec<(u64, Weak<Guest>)>>,
    connections: AtomicU64,
    refused: AtomicU64,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "counters of {} queues", self.tallies.len())
    }
}

impl Meter {
    /// Counters for `data` data queues and a control queue.
    pub(crate) fn new(data: u16) -> Meter {
        Meter {
            tallies: (0..=data).map(|_| Arc::default()).collect(),
            guests: Mutex::default(),
            connections: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Counters of each queue, the control queue's last.
    pub(crate) fn tallies(&self) -> &[Arc<Tally>] {
        &self.tallies
    }

    /// Counts a guest for as long as it lives.
    pub(crate) fn connected(&self, number: u64, guest: &Arc<Guest>) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests.retain(|(_, guest)| guest.strong_count() > 0);
        guests.push((number, Arc::downgrade(guest)));
    }

    /// Counts a guest that was one too many.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn queues(&self) -> impl Iterator<Item = (String, Count)> + '_ {
        let control = self.tallies.len() - 1;
        self.tallies.iter().enumerate().map(move |(i, tally)| {
            let name = match i == control {
                true => "control".to_string(),
                false => format!("data{i}"),
            };
            (name, tally.read())
        })
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn text(self: &Arc<Self>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

type OfQueue = (&'static str, &'static str, fn(&Count) -> u64);

const OF_QUEUE: [OfQueue; 6] = [
    ("kiln_read_bytes", "Bytes read from guests", |c| c.bytes_in),
    ("kiln_written_bytes", "Bytes written to guests", |c| {
        c.bytes_out
    }),
    (
        "kiln_malformed",
        "Descriptor chains that could not be followed",
        |c| c.malformed,
    ),
    (
        "kiln_interrupts",
        "Times a driver was told of answers",
        |c| c.interrupts,
    ),
    ("kiln_sleeps", "Times a queue's thread slept", |c| c.sleeps),
    ("kiln_held", "Times a guest was held to its rate", |c| {
        c.held
    }),
];

impl Collector for Meter {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let none = None::<&prometheus_client::metrics::exemplar::Exemplar<NoLabelSet, f64>>;
        let queues: Vec<(String, Count)> = self.queues().collect();
        let mut family = to.encode_descriptor(
            "kiln_requests",
            "Requests answered, by queue and status",
            None,
            MetricType::Counter,
        )?;
        for (queue, count) in &queues {
            for (status, n) in STATUS.iter().zip(count.status) {
                family
                    .encode_family(&[("queue", queue.as_str()), ("status", status)])?
                    .encode_counter(&n, none)?;
            }
        }
        for (name, help, value) in OF_QUEUE {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (queue, count) in &queues {
                family
                    .encode_family(&[("queue", queue.as_str())])?
                    .encode_counter(&value(count), none)?;
            }
        }
        let mut family = to.encode_descriptor(
            "kiln_queue_depth",
            "Requests available when the queue was last looked at",
            None,
            MetricType::Gauge,
        )?;
        for (queue, count) in &queues {
            family
                .encode_family(&[("queue", queue.as_str())])?
                .encode_gauge(&count.depth)?;
        }
        let mut family = to.encode_descriptor(
            "kiln_service_seconds",
            "From taking a request to handing it back",
            None,
            MetricType::Histogram,
        )?;
        for (queue, count) in &queues {
            let buckets: Vec<(f64, u64)> = (0..CLASSES)
                .map(|class| (bound(class), count.class[class]))
                .collect();
            family
                .encode_family(&[("queue", queue.as_str())])?
                .encode_histogram::<NoLabelSet>(
                    count.nanos as f64 / 1e9,
                    count.requests(),
                    &buckets,
                    None,
                )?;
        }
        to.encode_descriptor(
            "kiln_connections",
            "Front ends that have connected",
            None,
            MetricType::Counter,
        )?
        .encode_counter(&self.connections.load(Ordering::Relaxed), none)?;
        to.encode_descriptor(
            "kiln_refused",
            "Front ends turned away because there were as many as may be",
            None,
            MetricType::Counter,
        )?
        .encode_counter(&self.refused.load(Ordering::Relaxed), none)?;
        let guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut family = to.encode_descriptor(
            "kiln_sessions",
            "Sessions of each guest",
            None,
            MetricType::Gauge,
        )?;
        for (number, guest) in guests.iter() {
            if let Some(guest) = guest.upgrade() {
                family
                    .encode_family(&[("guest", number.to_string().as_str())])?
                    .encode_gauge(&guest.sessions())?;
            }
        }
        Ok(())
    }
}

/// What a class holds at most, seconds.
fn bound(class: usize) -> f64 {
    match class + 1 == CLASSES {
        true => f64::MAX,
        false => (1u64 << class) as f64 / 1e9,
    }
}

/// Answers a client with all metrics, whatever it asks.
pub(crate) fn answer(mut stream: UnixStream, meter: &Arc<Meter>) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut asked = Vec::new();
    let mut part = [0; 512];
    while !asked.windows(4).any(|w| w == b"\r\n\r\n") && asked.len() < MAX_ASKED {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            n => asked.extend_from_slice(&part[..n]),
        }
    }
    let text = meter.text();
    write!(
        stream,
        "HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
         Content-Length: {}\r\n\r\n{text}",
        text.len()
    )
}
