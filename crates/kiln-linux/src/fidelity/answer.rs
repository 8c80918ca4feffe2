//! Parses the module's answers, and converts the answers of the real kernel and of the emulated CPU
//! to a comparable form.

use kiln_kernel::crypto::Errno;
use kiln_kernel::script::{Event, Outcome};

/// Consecutive events that differ only in the request number, which increases by one from event to
/// event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    first: u32,
    last: u32,
    answered: bool,
    kthread: bool,
    wrong: bool,
    err: Errno,
    preempt_count: u32,
}

impl Run {
    fn text(&self) -> String {
        let mut text = self.first.to_string();
        if self.last > self.first {
            text.push_str(&format!("-{}", self.last));
        }
        text.push_str(match self.answered {
            true => " answered ",
            false => " returned ",
        });
        text.push_str(&format!("{} at {:x}", self.err, self.preempt_count));
        if self.kthread {
            text.push_str(" in a kthread");
        }
        if self.wrong {
            text.push_str(", wrong bytes");
        }
        text
    }
}

fn written(runs: &[Run], stuck: Option<usize>) -> String {
    let mut parts: Vec<String> = runs.iter().map(Run::text).collect();
    if let Some(step) = stuck {
        parts.push(format!("stuck in step {}", step + 1));
    }
    parts.join("; ")
}

/// Formats the result of a script on the emulated CPU.
pub(crate) fn describe_outcome(outcome: &Outcome) -> String {
    let mut runs: Vec<Run> = Vec::new();
    for e in &outcome.events {
        let Event {
            request,
            answer,
            kthread,
            wrong,
            err,
            preempt_count,
        } = *e;
        let one = Run {
            first: request,
            last: request,
            answered: answer,
            kthread,
            wrong,
            err,
            preempt_count,
        };
        match runs.last_mut() {
            Some(last) if last.last + 1 == request && same(last, &one) => last.last = request,
            _ => runs.push(one),
        }
    }
    written(&runs, outcome.stuck)
}

fn same(a: &Run, b: &Run) -> bool {
    let rest = |r: &Run| (r.answered, r.kthread, r.wrong, r.err, r.preempt_count);
    rest(a) == rest(b)
}

/// The result of a script on a real kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Name of the driver that processed the requests.
    pub driver: String,
    /// The message's correct ciphertext, in hexadecimal.
    pub right: String,
    /// The result in the form that [`describe_outcome`] uses.
    pub answer: String,
}

/// Parses the lines that `requests.c` prints. The console may have dropped lines or inserted other
/// lines. If a line cannot be parsed, the error describes it.
pub fn script(lines: &[String]) -> Result<Script, String> {
    let (mut driver, mut right, mut stuck) = (None, None, None);
    let mut runs = Vec::new();
    for line in lines {
        let bad = || format!("'{}' is not an event", line.escape_debug());
        let (word, rest) = line.split_once(' ').ok_or_else(bad)?;
        match word {
            "driver" => driver = Some(rest.to_owned()),
            "right" => right = Some(rest.to_owned()),
            "stuck" => stuck = Some(rest.parse().map_err(|_| bad())?),
            _ => runs.push(run(word, rest).ok_or_else(bad)?),
        }
    }
    match (driver, right) {
        (Some(driver), Some(right)) if !runs.is_empty() || stuck.is_some() => Ok(Script {
            driver,
            right,
            answer: written(&runs, stuck),
        }),
        _ => Err("an answer without its driver, its bytes or its events".into()),
    }
}

fn run(range: &str, rest: &str) -> Option<Run> {
    let (first, last) = range.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    let mut words = rest.split(' ');
    let answered = match words.next()? {
        "answered" => true,
        "returned" => false,
        _ => return None,
    };
    let mut run = Run {
        first,
        last,
        answered,
        kthread: false,
        wrong: false,
        err: Errno(words.next()?.parse().ok()?),
        preempt_count: u32::from_str_radix(words.next()?, 16).ok()?,
    };
    for word in words {
        match word {
            "k" => run.kthread = true,
            "w" => run.wrong = true,
            _ => return None,
        }
    }
    (first <= last).then_some(run)
}

/// Parses the lines that `scene.c` prints, and returns the most frequent trace, because a timer
/// tick may disturb some of the runs. Fails unless more than half of the runs produced this trace.
pub fn scene(lines: &[String]) -> Result<String, String> {
    let mut counted: Vec<(u64, &str)> = Vec::new();
    for line in lines {
        let (count, trace) = line.split_once(' ').unwrap_or((line, ""));
        let count = count
            .parse()
            .map_err(|_| format!("'{}' is not a trace", line.escape_debug()))?;
        counted.push((count, trace));
    }
    let total: u64 = counted.iter().map(|c| c.0).fold(0, u64::saturating_add);
    match counted.iter().max_by_key(|c| c.0) {
        Some(&(count, trace)) if count > total / 2 && plain(trace) => Ok(trace.to_owned()),
        Some(_) => Err(format!(
            "{} different traces, none of them most of the time",
            counted.len()
        )),
        None => Err("no trace".into()),
    }
}

/// Returns whether every word of the trace, such as `S?n101`, has the format that
/// `kernel/include/kiln/scene.h` describes.
fn plain(trace: &str) -> bool {
    let word = |w: &str| {
        w.len() >= 3
            && w.starts_with(['T', 'H', 'S', 'O'])
            && w.is_ascii()
            && w[2..]
                .chars()
                .all(|c| c.is_ascii_hexdigit() || "yn".contains(c))
    };
    trace.split(' ').all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn both_sides_write_the_same() {
        let told = lines(
            "driver d\nright 00\n0-2 returned -115 102\n3-3 returned -28 102\n0-2 answered 0 200 k w\nstuck 4",
        );
        let event = |request, answer, err, preempt_count| Event {
            request,
            answer,
            kthread: answer,
            wrong: answer,
            err: Errno(err),
            preempt_count,
        };
        let mut events: Vec<Event> = (0..3).map(|i| event(i, false, -115, 0x102)).collect();
        events.push(event(3, false, -28, 0x102));
        events.extend((0..3).map(|i| event(i, true, 0, 0x200)));
        let outcome = Outcome {
            events,
            stuck: Some(4),
        };
        let text = describe_outcome(&outcome);
        assert_eq!(
            text,
            "0-2 returned -EINPROGRESS at 102; 3 returned -ENOSPC at 102; \
             0-2 answered 0 at 200 in a kthread, wrong bytes; stuck in step 5"
        );
        assert_eq!(script(&told).unwrap().answer, text);
    }

    #[test]
    fn what_differs_is_another_run() {
        let said = |text: &str| {
            script(&lines(&format!("driver d\nright 0\n{text}")))
                .unwrap()
                .answer
        };
        let one = said("0-4 returned 0 0");
        for other in [
            "0-5 returned 0 0",
            "0-4 answered 0 0",
            "0-4 returned -16 0",
            "0-4 returned 0 200",
            "0-4 returned 0 0 k",
            "0-4 returned 0 0 w",
            "0-2 returned 0 0\n3-4 returned 0 0",
        ] {
            assert_ne!(one, said(other), "{other}");
        }
    }

    #[test]
    fn hostile_events_are_faults() {
        for bad in [
            "",
            "driver d",
            "driver d\nright 0",
            "right 0\n0-1 returned 0 0",
            "driver d\nright 0\n0 returned 0 0",
            "driver d\nright 0\n2-1 returned 0 0",
            "driver d\nright 0\n0-1 returned 0",
            "driver d\nright 0\n0-1 returned x 0",
            "driver d\nright 0\n0-1 returned 0 xyz",
            "driver d\nright 0\n0-1 returned 0 0 z",
            "driver d\nright 0\n0-99999999999 returned 0 0",
            "driver d\nright 0\nstuck soon",
            "driver d\nright 0\n\u{1b}[0m",
        ] {
            assert!(script(&lines(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_trace_of_most_times_counts_and_a_tie_does_not() {
        assert_eq!(scene(&lines("14 T?y0\n1 T?n1 S.100")).unwrap(), "T?y0");
        for bad in [
            "",
            "7 T?y0\n7 T?n0",
            "x T?y0",
            "15",
            "15 ",
            "15 kiln: oops",
            "15 T?",
            "15 T?y0  T?y0",
            "-1 T?y0",
            "15 T\u{e9}y0",
        ] {
            assert!(scene(&lines(bad)).is_err(), "{bad:?}");
        }
    }
}
