//! The topics of the survey, and the parts that measure for them.

/// What the survey answers. Several questions may contribute to one topic.
#[derive(Debug)]
pub struct Topic {
    /// In rows and flags.
    pub name: &'static str,
    /// The question in words.
    pub title: &'static str,
    /// The command that gives the details.
    pub command: &'static str,
    /// Where the published results are from.
    pub source: Option<&'static str>,
}

impl PartialEq for Topic {
    fn eq(&self, other: &Topic) -> bool {
        self.name == other.name
    }
}

impl Eq for Topic {}

/// What one process of the survey does: a command with its arguments, in so many seconds.
pub struct Part {
    /// The file name of its record.
    pub name: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// 1 is the most important. If time is short, the least important parts are left out first.
    pub importance: u32,
    /// The survey has it if it takes so long in all, in seconds.
    pub from_s: f64,
    /// What one process takes at least, in seconds.
    pub least_s: f64,
    /// Its share of the time that is left when all have their least.
    pub share: f64,
    /// Whether it runs in several processes: it does where a measured number becomes a headline. Counts of wrong
    /// results add up and need one.
    pub repeats: bool,
    /// Whether it builds what may not have been built: that takes as long as it takes.
    pub builds: bool,
    /// Whether it is left out together with another part, which says so.
    pub follows: bool,
    /// Whether there is what it needs.
    pub can_run: fn(&Means) -> bool,
    /// What is not here that would make it better, and what would add it.
    pub missing: fn(&Means) -> Option<(&'static str, &'static str)>,
    /// The arguments of this program, so that each process takes about its time from its start to its end.
    pub args: fn(&Slot) -> Vec<String>,
    /// What it does not do for lack of time.
    pub left_out: fn(&Slot) -> Option<String>,
}

impl Part {
    /// What a process takes to start: loading it, its clock, what the kernel side measures at its start; in seconds.
    pub const START_S: f64 = 0.5;

    /// A part of every survey, to begin with.
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

/// What this machine and the command line have for a survey.
#[derive(Clone, Debug, Default)]
pub struct Means {
    /// Names of the compilers that are here.
    pub compilers: Vec<String>,
    /// A kernel tree.
    pub tree: Option<String>,
}

/// The time of a part.
pub struct Slot<'a> {
    /// For each process, from its start to its end.
    pub seconds: f64,
    /// How many processes there will be.
    pub processes: usize,
    /// What there is.
    pub means: &'a Means,
}

impl Slot<'_> {
    /// The value of `--seconds` for a command that measures for the time of its slot.
    pub fn measuring(&self) -> String {
        format!("{:.1}", (self.seconds - Part::START_S).max(0.1))
    }

    /// The kernel tree, for parts that only run with one.
    pub fn tree(&self) -> &str {
        self.means.tree.as_deref().unwrap_or_default()
    }
}

/// Arguments of this program.
pub fn args(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}
