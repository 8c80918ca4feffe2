//! Section lengths by way of cutting, the target marked, as an SVG.

use std::fmt::Write;

use super::row::Lengths;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 60.0;
const BAND: f64 = 72.0;
/// Bars of one octave.
const BARS: f64 = 8.0;

/// The picture: a band for each way, lengths from left to right in octaves, shares of the sections' time upwards, so
/// that few long sections are not lost among many short ones.
pub fn svg(lengths: &[Lengths], target_us: f64, note: &str) -> String {
    let shown: Vec<&Lengths> = lengths.iter().filter(|l| !l.buckets.is_empty()).collect();
    let all = shown.iter().flat_map(|l| &l.buckets).map(|b| b.0);
    let (mut least, mut most) = (target_us / 4.0, target_us * 4.0);
    for us in all.filter(|us| *us > 0.0) {
        (least, most) = (least.min(us), most.max(us));
    }
    let (first, last) = (least.log2().floor(), most.log2().ceil());
    let width = WIDTH - LEFT - RIGHT;
    let x = |us: f64| LEFT + width * (us.log2() - first) / (last - first);
    let height = TOP + BAND * shown.len() as f64 + 60.0;
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}' \
         font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='#fff'/>\n\
         <text x='{LEFT}' y='24' font-weight='bold'>FPU sections by length: where their time goes</text>\n"
    );
    let bottom = TOP + BAND * shown.len() as f64;
    let mut octave = first;
    while octave <= last {
        let us = octave.exp2();
        let _ = writeln!(
            out,
            "<path d='M{0:.1} {TOP}V{bottom}' stroke='#eee'/><text x='{0:.1}' y='{1}' text-anchor='middle'>{2}</text>",
            x(us),
            bottom + 18.0,
            label(us)
        );
        octave += ((last - first) / 12.0).ceil().max(1.0);
    }
    for (i, of) in shown.iter().enumerate() {
        let base = TOP + BAND * (i + 1) as f64;
        let _ = writeln!(
            out,
            "<text x='{}' y='{:.1}' text-anchor='end'>{}</text><path d='M{LEFT} {base}H{}' stroke='#888'/>",
            LEFT - 10.0,
            base - BAND / 3.0,
            of.mode,
            WIDTH - RIGHT
        );
        for (bar, share) in shares(of) {
            let (from, to) = ((bar / BARS).exp2(), ((bar + 1.0) / BARS).exp2());
            let tall = (BAND - 10.0) * share;
            let colour = if from >= target_us * 1.1 {
                "#d55e00"
            } else {
                "#0072b2"
            };
            let _ = writeln!(
                out,
                "<rect x='{:.1}' y='{:.1}' width='{:.1}' height='{tall:.1}' fill='{colour}'/>",
                x(from),
                base - tall,
                (x(to) - x(from)).max(1.0)
            );
        }
    }
    let _ = writeln!(
        out,
        "<path d='M{0:.1} {1}V{bottom}' stroke='#000' stroke-dasharray='5 3'/><text x='{0:.1}' y='{2}' \
         text-anchor='middle'>target {3}</text>",
        x(target_us),
        TOP - 8.0,
        TOP - 12.0,
        label(target_us)
    );
    let _ = writeln!(
        out,
        "<text x='{LEFT}' y='{}'>length of a section; orange: beyond 1.1 times the target. {}</text>\n</svg>",
        height - 14.0,
        escape(note)
    );
    out
}

/// Bars with the share of the time that sections of such lengths take, the tallest 1.
fn shares(of: &Lengths) -> Vec<(f64, f64)> {
    let mut bars: Vec<(f64, f64)> = Vec::new();
    for &(us, n) in of.buckets.iter().filter(|b| b.0 > 0.0) {
        let bar = (us.log2() * BARS).floor();
        let time = us * n as f64;
        match bars.iter_mut().find(|b| b.0 == bar) {
            Some(b) => b.1 += time,
            None => bars.push((bar, time)),
        }
    }
    let tallest = bars.iter().map(|b| b.1).fold(f64::MIN_POSITIVE, f64::max);
    bars.iter_mut().for_each(|b| b.1 /= tallest);
    bars
}

fn label(us: f64) -> String {
    match us {
        us if us >= 1000.0 => format!("{:.0} ms", us / 1000.0),
        us if us >= 1.0 => format!("{us:.0} µs"),
        us => format!("{:.0} ns", us * 1000.0),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace(|c: char| c.is_control(), "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_for_each_way_and_the_target() {
        let of = |mode, us| Lengths {
            mode,
            buckets: vec![(us, 10), (us * 1.5, 3)],
        };
        let empty = Lengths {
            mode: "page",
            buckets: Vec::new(),
        };
        let text = svg(
            &[of("clocked", 20.0), of("unbounded", 900.0), empty],
            30.0,
            "<seed>",
        );
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert!(
            text.contains("clocked") && text.contains("target 30 µs") && text.contains("&lt;seed")
        );
        assert!(!text.contains(">page<") && !text.contains("NaN") && !text.contains("inf"));
        assert!(
            text.contains("#d55e00"),
            "what is too long has a colour of its own"
        );
        let none = svg(&[], 30.0, "");
        assert!(!none.contains("NaN"), "{none}");
    }

    #[test]
    fn bars_have_the_time() {
        let of = Lengths {
            mode: "clocked",
            buckets: vec![(10.0, 10), (40.0, 5)],
        };
        let shares = shares(&of);
        assert_eq!(shares.len(), 2);
        assert!((shares[0].1 - 0.5).abs() < 1e-9, "{shares:?}");
    }
}
