//! Throughput and queue over time, as an SVG.

use std::fmt::Write;

use super::timeline::Timeline;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 170.0;
const PANEL: f64 = 240.0;
/// Colours that differ for most eyes (Okabe and Ito).
const COLOURS: [&str; 7] = [
    "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

type Points = Vec<(f64, f64)>;

/// A panel with a line for each policy.
struct Panel<'a> {
    top: f64,
    title: &'a str,
    lines: Vec<(&'a str, Points)>,
    end: f64,
}

impl Panel<'_> {
    fn draw(&self, out: &mut String, phases: [f64; 3]) {
        let most = self.lines.iter().flat_map(|(_, l)| l).map(|p| p.1);
        let (step, most) = scale(most.fold(0.0, f64::max));
        let width = WIDTH - LEFT - RIGHT;
        let x = |ms: f64| LEFT + width * ms / self.end.max(1e-9);
        let y = |v: f64| self.top + PANEL * (1.0 - v / most);
        let bottom = self.top + PANEL;
        let _ = writeln!(
            out,
            "<rect x='{:.1}' y='{}' width='{:.1}' height='{PANEL}' fill='#f2ead8'/>",
            x(phases[0]),
            self.top,
            x(phases[1]) - x(phases[0])
        );
        let _ = writeln!(
            out,
            "<text x='{LEFT}' y='{}' font-weight='bold'>{}</text>",
            self.top - 10.0,
            self.title
        );
        let mut value = 0.0;
        while value <= most * 1.0001 {
            let _ = writeln!(
                out,
                "<path d='M{LEFT} {0:.1}H{1:.1}' stroke='#ddd'/><text x='{2}' y='{3:.1}' text-anchor='end'>{4}</text>",
                y(value),
                WIDTH - RIGHT,
                LEFT - 8.0,
                y(value) + 4.0,
                number(value)
            );
            value += step;
        }
        let (step, _) = scale(self.end);
        let mut ms = 0.0;
        while ms <= self.end {
            let _ = writeln!(
                out,
                "<path d='M{0:.1} {bottom}v5' stroke='#888'/><text x='{0:.1}' y='{1}' text-anchor='middle'>{2}</text>",
                x(ms),
                bottom + 20.0,
                number(ms)
            );
            ms += step;
        }
        for (i, (_, line)) in self.lines.iter().enumerate() {
            let mut path = String::new();
            for (n, &(ms, v)) in line.iter().enumerate() {
                let _ = write!(
                    path,
                    "{}{:.1} {:.1}",
                    if n == 0 { 'M' } else { 'L' },
                    x(ms),
                    y(v)
                );
            }
            let _ = writeln!(
                out,
                "<path d='{path}' fill='none' stroke='{}' stroke-width='1.8' stroke-linejoin='round'/>",
                colour(i)
            );
        }
        let _ = writeln!(
            out,
            "<path d='M{LEFT} {}V{bottom}H{}' fill='none' stroke='#888'/>",
            self.top,
            WIDTH - RIGHT
        );
    }
}

fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

/// A round step, and the least multiple of it that holds `most`.
fn scale(most: f64) -> (f64, f64) {
    if most <= 0.0 || !most.is_finite() {
        return (1.0, 1.0);
    }
    let power = 10f64.powf((most / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * power);
    let step = steps
        .into_iter()
        .find(|s| most / s <= 6.0)
        .unwrap_or(steps[3]);
    (step, step * (most / step).ceil())
}

fn number(v: f64) -> String {
    match v.fract().abs() < 1e-9 || v >= 10.0 {
        true => format!("{v:.0}"),
        false => format!("{v:.2}"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace(|c: char| c.is_control(), "?")
}

/// The picture of a load: its name, when its phases end, and how the policies went.
pub fn svg(load: &str, phases: [f64; 3], lines: &[Timeline], note: &str) -> String {
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' \
         font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='#fff'/>\n"
    );
    let of = |f: fn(&Timeline) -> Points| lines.iter().map(|l| (l.name.as_str(), f(l))).collect();
    let title = format!("{}: payload received, MB/s", escape(load));
    let throughput = Panel {
        top: 40.0,
        title: &title,
        lines: of(Timeline::throughput),
        end: phases[2],
    };
    let queue = Panel {
        top: 340.0,
        title: "requests waiting for cryptd",
        lines: of(Timeline::queue),
        end: phases[2],
    };
    throughput.draw(&mut out, phases);
    queue.draw(&mut out, phases);
    for (i, line) in lines.iter().enumerate() {
        let y = 50.0 + 20.0 * i as f64;
        let x = WIDTH - RIGHT + 16.0;
        let _ = writeln!(
            out,
            "<path d='M{x} {y}h22' stroke='{}' stroke-width='3'/><text x='{}' y='{}'>{}</text>",
            colour(i),
            x + 28.0,
            y + 4.0,
            escape(&line.name)
        );
    }
    let _ = writeln!(
        out,
        "<text x='{LEFT}' y='{}'>ms; shaded: the high load. {}</text>\n</svg>",
        HEIGHT - 12.0,
        escape(note)
    );
    out
}

/// Packets delivered against packets offered per second, both on logarithmic scales, a line per policy.
pub fn curve_svg(load: &str, lines: &[(&str, &[(f64, f64)])], note: &str) -> String {
    const BOTTOM: f64 = 560.0;
    const TOP: f64 = 60.0;
    let ends = lines.iter().flat_map(|(_, l)| l.iter().map(|p| p.0));
    let (low, high) = ends.fold((f64::INFINITY, 0.0f64), |(a, b), x| (a.min(x), b.max(x)));
    let (low, high) = match low < high {
        true => (low, high),
        false => (low.clamp(1.0, 1e9) / 2.0, low.clamp(1.0, 1e9) * 2.0),
    };
    let octaves = (high / low).log2();
    let part = |pps: f64| (pps.max(low / 4.0) / low).log2() / octaves;
    let x = |pps: f64| LEFT + (WIDTH - LEFT - RIGHT) * part(pps);
    let y = |pps: f64| (BOTTOM - (BOTTOM - TOP) * part(pps)).min(BOTTOM);
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' \
         font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='#fff'/>\n\
         <text x='{LEFT}' y='30' font-weight='bold'>{}: packets delivered against packets offered</text>\n",
        escape(load)
    );
    let mut mark = 2f64.powf((low / 1000.0).log2().ceil()) * 1000.0;
    while mark <= high * 1.0001 {
        let text = match mark >= 1e6 {
            true => format!("{:.1} M", mark / 1e6),
            false => format!("{:.0} k", mark / 1e3),
        };
        let _ = writeln!(
            out,
            "<path d='M{LEFT} {0:.1}H{1:.1}M{2:.1} {BOTTOM}V{TOP}' stroke='#e4e4e4'/>\
             <text x='{3}' y='{4:.1}' text-anchor='end'>{text}</text>\
             <text x='{2:.1}' y='{5}' text-anchor='middle'>{text}</text>",
            y(mark),
            WIDTH - RIGHT,
            x(mark),
            LEFT - 8.0,
            y(mark) + 4.0,
            BOTTOM + 18.0
        );
        mark *= 2.0;
    }
    let dashes = ["", "8 4", "2 4", "10 3 2 3", "5 5", "1 3"];
    for (i, (name, line)) in lines.iter().enumerate() {
        let mut path = String::new();
        for (n, &(offered, delivered)) in line.iter().enumerate() {
            let step = if n == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{step}{:.1} {:.1}", x(offered), y(delivered));
        }
        let at = 70.0 + 20.0 * i as f64;
        let right = WIDTH - RIGHT + 16.0;
        let _ = writeln!(
            out,
            "<path d='{path}M{right} {at}h22' fill='none' stroke='{}' stroke-width='2' stroke-dasharray='{}'/>\
             <text x='{}' y='{}'>{}</text>",
            colour(i),
            dashes[i % dashes.len()],
            right + 28.0,
            at + 4.0,
            escape(name)
        );
    }
    let _ = writeln!(
        out,
        "<path d='M{LEFT} {TOP}V{BOTTOM}H{}' fill='none' stroke='#888'/>\
         <text x='{}' y='{}' text-anchor='middle'>packets offered per second</text>\
         <text transform='translate(14 {}) rotate(-90)' text-anchor='middle'>packets delivered per second</text>\
         <text x='{LEFT}' y='{}' fill='#555'>{}</text>\n</svg>",
        WIDTH - RIGHT,
        (LEFT + WIDTH - RIGHT) / 2.0,
        BOTTOM + 38.0,
        (TOP + BOTTOM) / 2.0,
        HEIGHT - 12.0,
        escape(note)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_hold_all() {
        for (most, step, top) in [
            (7.0, 2.0, 8.0),
            (1000.0, 200.0, 1000.0),
            (0.0, 1.0, 1.0),
            (33.0, 10.0, 40.0),
        ] {
            assert_eq!(scale(most), (step, top), "{most}");
        }
    }

    #[test]
    fn a_curve_has_axes_with_units_and_a_line_for_each_policy() {
        let straight: Vec<(f64, f64)> = (0..10).map(|i| (1e4 * 2f64.powi(i), 1e4)).collect();
        let lines = [("a", &straight[..]), ("<b>", &straight[..]), ("c", &[][..])];
        let text = curve_svg("esp", &lines, "seed 1");
        assert!(
            text.contains("packets offered per second") && text.contains("delivered per second")
        );
        assert!(text.contains("&lt;b&gt;") && text.contains(">1.0 M<"));
        assert_eq!(text.matches("stroke-width='2'").count(), 3);
        for text in [
            text,
            curve_svg("esp", &[("a", &straight[..1])], ""),
            curve_svg("esp", &[], ""),
        ] {
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn a_picture_has_a_line_for_each_policy_and_no_markup_of_names() {
        let lines = [Timeline::new("a".into()), Timeline::new("<b>".into())];
        let text = svg("pcap:<x>", [0.0, 5.0, 9.0], &lines, "seed 1");
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert!(text.contains("pcap:&lt;x&gt;") && text.contains("&lt;b&gt;"));
        assert!(!text.contains("NaN") && !text.contains("inf"));
        assert_eq!(text.matches("stroke-width='1.8'").count(), 4);
    }
}
