//! The topics of the survey, and the parts that measure for them.

/// A topic that the survey answers. Several questions may contribute to it.
#[derive(Debug)]
pub struct Topic {
    /// Its name in rows and flags.
    pub name: &'static str,
    /// The topic as a question.
    pub title: &'static str,
    /// The command that gives the details.
    pub command: &'static str,
    /// The source of the published results.
    pub source: Option<&'static str>,
}

impl PartialEq for Topic {
    fn eq(&self, other: &Topic) -> bool {
        self.name == other.name
    }
}

impl Eq for Topic {}

/// What one process of the survey does: a command with its arguments and its time.
pub struct Part {
    /// The file name of its record.
    pub name: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// 1 is the most important. If time is short, the least important parts are left out first.
    pub importance: u32,
    /// The part is included if the whole survey takes at least this many seconds.
    pub from_s: f64,
    /// Minimum time of one process, in seconds.
    pub least_s: f64,
    /// Its share of the time that remains after every part has its minimum.
    pub share: f64,
    /// Whether it runs in several processes. Parts do so if a measured number becomes a headline; counts of wrong
    /// results add up and need only one.
    pub repeats: bool,
    /// Whether it may have to build something first, for which the time cannot be predicted.
    pub builds: bool,
    /// Whether it is left out together with another part, which gives the reason.
    pub follows: bool,
    /// Whether everything that it needs is available.
    pub can_run: fn(&Means) -> bool,
    /// Something missing that would improve the result, and what would install it.
    pub missing: fn(&Means) -> Option<(&'static str, &'static str)>,
    /// The arguments for this program, chosen so that each process takes about its slot's time from start to end.
    pub args: fn(&Slot) -> Vec<String>,
    /// What the part leaves out for lack of time.
    pub left_out: fn(&Slot) -> Option<String>,
}

impl Part {
    /// Seconds that a process takes to start: loading, clock calibration, and what the kernel side measures first.
    pub const START_S: f64 = 0.5;

    /// Default values for a part.
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

/// What this machine and the command line provide for a survey.
#[derive(Clone, Debug, Default)]
pub struct Means {
    /// Names of the available compilers.
    pub compilers: Vec<String>,
    /// A kernel tree.
    pub tree: Option<String>,
}

/// The time that a part has.
pub struct Slot<'a> {
    /// Seconds for each process, from its start to its end.
    pub seconds: f64,
    /// How many processes there will be.
    pub processes: usize,
    pub means: &'a Means,
}

impl Slot<'_> {
    /// The value of `--seconds` for a command that measures for the time of its slot.
    pub fn measuring(&self) -> String {
        format!("{:.1}", (self.seconds - Part::START_S).max(0.1))
    }

    /// The kernel tree. Only for parts that require one.
    pub fn tree(&self) -> &str {
        self.means.tree.as_deref().unwrap_or_default()
    }
}

/// Converts words to arguments of this program.
pub fn args(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}
