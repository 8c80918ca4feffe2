//! A progress bar on stderr, drawn only if stderr is a terminal.

use std::fmt::Write;
use std::io::{stderr, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Number of distinct positions of the progress bar.
const STEPS: f64 = 1000.0;
/// The remaining time is shown once this fraction of the run is complete.
const SETTLED: f32 = 0.05;

/// Callback that receives the completed fraction of a run, from 0 to 1, and a description of what
/// is being measured.
pub type Report<'a> = &'a mut dyn FnMut(f64, &str);

/// Whether `--quiet` was given. This is global because bars are created in many places.
static SILENT: AtomicBool = AtomicBool::new(false);

/// A progress bar, which is erased when dropped.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Creates a bar. It appears when the first progress is reported.
    pub fn start() -> Progress {
        if !stderr().is_terminal() || SILENT.load(Ordering::Relaxed) {
            return Progress(None);
        }
        // Redraw rarely, because each redraw makes a system call during the measurement.
        let bar = ProgressBar::with_draw_target(
            Some(STEPS as u64),
            ProgressDrawTarget::stderr_with_hz(5),
        );
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % {left:>4} {msg:36!}")
            .expect("a constant template")
            .with_key("left", |state: &ProgressState, out: &mut dyn Write| {
                // Do not show the remaining time at the start of a run. The first step chooses the
                // sample sizes, so its pace does not predict that of later steps.
                if state.fraction() >= SETTLED {
                    let _ = write!(out, "{:#}", HumanDuration(state.eta()));
                }
            });
        bar.set_style(style);
        Progress(Some(bar))
    }

    /// Suppresses all later output of progress bars.
    pub(crate) fn silence() {
        SILENT.store(true, Ordering::Relaxed);
    }

    /// Returns a bar that is never drawn, for use while other code writes to the terminal.
    pub fn none() -> Progress {
        Progress(None)
    }

    /// Reports the completed fraction and the current activity.
    pub fn report(&self, fraction: f64, what: &str) {
        let Some(bar) = &self.0 else {
            // These activities may take minutes, so report them even without a progress bar.
            let line = match what {
                kiln_tree::WAITING => what,
                kiln_tree::CONFIGURING => {
                    "building the tree's crypto code (the first build takes minutes)"
                }
                _ => return,
            };
            if !SILENT.load(Ordering::Relaxed) {
                eprintln!("kiln: {line}");
            }
            return;
        };
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
