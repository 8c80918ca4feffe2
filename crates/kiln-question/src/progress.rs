//! A progress bar on stderr, if that is a terminal.

use std::fmt::Write;
use std::io::{stderr, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Steps of the bar.
const STEPS: f64 = 1000.0;
/// The time left is shown from this fraction on.
const SETTLED: f32 = 0.05;

/// Called with the completed fraction of a run, from 0 to 1, and with what is being measured.
pub type Report<'a> = &'a mut dyn FnMut(f64, &str);

/// Whether `--quiet` was given: there are bars in many places, and none of them is drawn then.
static SILENT: AtomicBool = AtomicBool::new(false);

/// The bar, which is erased when this is dropped.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Starts a bar, which is not drawn before the first report.
    pub fn start() -> Progress {
        if !stderr().is_terminal() || SILENT.load(Ordering::Relaxed) {
            return Progress(None);
        }
        // Draw rarely: each draw is a system call during the measurement.
        let bar = ProgressBar::with_draw_target(
            Some(STEPS as u64),
            ProgressDrawTarget::stderr_with_hz(5),
        );
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % {left:>4} {msg:36!}")
            .expect("a constant template")
            .with_key("left", |state: &ProgressState, out: &mut dyn Write| {
                // The first step chooses the sample sizes, and its pace does not predict the rest.
                if state.fraction() >= SETTLED {
                    let _ = write!(out, "{:#}", HumanDuration(state.eta()));
                }
            });
        bar.set_style(style);
        Progress(Some(bar))
    }

    /// Draws no bar from now on.
    pub(crate) fn silence() {
        SILENT.store(true, Ordering::Relaxed);
    }

    /// A bar that draws nothing, for use while something else writes to the terminal.
    pub fn none() -> Progress {
        Progress(None)
    }

    /// Reports the completed fraction and the current activity.
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
