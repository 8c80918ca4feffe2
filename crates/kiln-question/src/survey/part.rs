//! The survey's topics, and the parts that measure something for a topic.

/// A survey topic that several commands may contribute to.
#[derive(Debug)]
pub struct Topic {
    /// The topic's name, as used in rows and flags.
    pub name: &'static str,
    /// The topic phrased as a question.
    pub title: &'static str,
    /// The command that shows the details.
    pub command: &'static str,
    /// Source of the published results with which the survey compares its own.
    pub source: Option<&'static str>,
}

impl PartialEq for Topic {
    fn eq(&self, other: &Topic) -> bool {
        self.name == other.name
    }
}

impl Eq for Topic {}

/// The work of one survey process: a command, its arguments and the time it needs.
pub struct Part {
    /// Name of the part's record file.
    pub name: &'static str,
    /// What the part does, in a few words.
    pub what: &'static str,
    /// Importance, where 1 is the highest. If time is short, the least important parts are skipped.
    pub importance: u32,
    /// Minimum duration, in seconds, of a survey that includes this part.
    pub from_s: f64,
    /// Minimum time for one process, in seconds.
    pub least_s: f64,
    /// Weight with which this part shares in the time that is left after every part has been given
    /// its minimum.
    pub share: f64,
    /// Whether the part runs in several processes. This is necessary if a measured number becomes a
    /// headline. For counts of wrong results, one process is enough, because counts can be added
    /// up.
    pub repeats: bool,
    /// Whether the part may have to build something first, which takes an unpredictable amount of
    /// time.
    pub builds: bool,
    /// Whether this part is skipped whenever a related part is skipped. In that case only the
    /// related part reports the reason.
    pub follows: bool,
    /// Returns whether everything that the part needs is available.
    pub can_run: fn(&Means) -> bool,
    /// If something that would improve the result is missing, returns its name and how to install
    /// it.
    pub missing: fn(&Means) -> Option<(&'static str, &'static str)>,
    /// Returns the arguments for this program, chosen so that each process takes about as long as
    /// its slot, including start-up.
    pub args: fn(&Slot) -> Vec<String>,
    /// Returns a description of what the part skips for lack of time, or `None` if it skips
    /// nothing.
    pub left_out: fn(&Slot) -> Option<String>,
}

impl Part {
    /// Number of seconds that a process takes to start: loading, calibrating the clock, and making
    /// the first measurements in `kernel/`.
    pub const START_S: f64 = 0.5;

    /// Default values for the fields that a part does not set, for use as `..Part::USUAL`.
    pub const USUAL: Part = Part {
        name: "",
        what: "",
        importance: 0,
        from_s: 0.0,
        least_s: 0.0,
        share: 0.0,
        repeats: true,
        builds: false,
        follows: false,
        can_run: |_| true,
        missing: |_| None,
        args: |_| Vec::new(),
        left_out: |_| None,
    };
}

impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        self.name == other.name
    }
}

impl Eq for Part {}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The compilers and the kernel tree that are available to a survey on this machine.
#[derive(Clone, Debug, Default)]
pub struct Means {
    /// Names of the available compilers.
    pub compilers: Vec<String>,
    /// Path of a kernel tree, if one is available.
    pub tree: Option<String>,
}

/// The time and the tools that are available to a part.
pub struct Slot<'a> {
    /// Seconds available to each process, including start-up.
    pub seconds: f64,
    /// Number of processes that will run the part.
    pub processes: usize,
    pub means: &'a Means,
}

impl Slot<'_> {
    /// Returns the `--seconds` value for a command that measures for the whole slot.
    pub fn measuring(&self) -> String {
        format!("{:.1}", (self.seconds - Part::START_S).max(0.1))
    }

    /// Returns the kernel tree's path. Call this only for parts that require a tree.
    pub fn tree(&self) -> &str {
        self.means.tree.as_deref().unwrap_or_default()
    }
}

/// Converts string slices to the owned strings that [`Part::args`] returns.
pub fn args(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}
