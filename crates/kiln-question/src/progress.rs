//! A bar on stderr if that is a terminal, and nothing if it is not.

use std::fmt::Write;
use std::io::{stderr, IsTerminal};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Steps of the bar.
const STEPS: f64 = 1000.0;
/// The time left is shown from here on.
const SETTLED: f32 = 0.05;

/// Is told how much of a run is done, from 0 to 1, and what is being measured.
pub type Report<'a> = &'a mut dyn FnMut(f64, &str);

/// The bar, which is wiped when this is dropped.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Nothing is drawn before the first report.
    pub fn start() -> Progress {
        if !stderr().is_terminal() {
            return Progress(None);
        }
        // Few draws: each is a system call beside the measurement.
        let bar = ProgressBar::with_draw_target(
            Some(STEPS as u64),
            ProgressDrawTarget::stderr_with_hz(5),
        );
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % {left:>4} {msg:36!}")
            .expect("a constant template")
            .with_key("left", |state: &ProgressState, out: &mut dyn Write| {
                // Choosing the sample sizes comes first and says nothing of the pace.
                if state.fraction() >= SETTLED {
                    let _ = write!(out, "{:#}", HumanDuration(state.eta()));
                }
            });
        bar.set_style(style);
        Progress(Some(bar))
    }

    /// Draws nothing; for when something else writes to the terminal.
    pub fn none() -> Progress {
        Progress(None)
    }

    /// `fraction` of the whole is done, and this is being done now.
    pub fn report(&self, fraction: f64, what: &str) {
        let Some(bar) = &self.0 else { return };
        if bar.message() != what {
            bar.set_message(what.to_string());
        }
        let position = (fraction.clamp(0.0, 1.0) * STEPS) as u64;
        if position != bar.position() {
            bar.set_position(position);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
