//! How a child ended, what it noted, what was reported in it.

use std::collections::HashMap;

use testkit::{Crash, Finished};

use super::config::Config;
use super::names::name_of;
use super::told::Told;

pub(crate) struct SeenByChild {
    pub(crate) config: Config,
    pub(crate) finished: Finished,
    notes: HashMap<String, usize>,
    pub(crate) reports: Vec<Told>,
    /// Lines about leaks.
    pub(crate) leaks: Vec<Told>,
}

impl SeenByChild {
    pub(crate) fn new(case: &str, config: Config, finished: Finished) -> Self {
        let mut notes = HashMap::new();
        for line in finished.stdout.lines() {
            // The test runner may have begun the line.
            let Some((_, note)) = line.split_once("NOTE ") else {
                continue;
            };
            let (name, value) = note.rsplit_once(' ').expect("a name and a number");
            notes.insert(name.to_owned(), value.parse().expect("a number"));
        }
        let anchor = notes.get("anchor").copied().unwrap_or(0);
        let (mut reports, mut leaks) = (Vec::new(), Vec::new());
        for line in finished.stderr.lines().filter(|line| line.starts_with('{')) {
            match Told::new(line, case, config, anchor) {
                told if told.is_leak() => leaks.push(told),
                told => reports.push(told),
            }
        }
        Self { config, finished, notes, reports, leaks }
    }

    /// What the child noted under that name.
    #[track_caller]
    pub(crate) fn note(&self, name: &str) -> usize {
        self.notes
            .get(name)
            .copied()
            .unwrap_or_else(|| panic!("{}: nothing noted as {name}\n{}", self.config.name(), self.finished))
    }

    pub(crate) fn noted(&self, name: &str) -> bool {
        self.notes.contains_key(name)
    }

    /// Blocks and bytes of each leak, the smallest first.
    pub(crate) fn leaked(&self) -> Vec<(u64, u64)> {
        let mut leaked: Vec<_> = self.leaks.iter().map(Told::leak).collect();
        leaked.sort_unstable();
        leaked
    }

    /// The functions whose addresses the child noted as `name0`, `name1`, and so on.
    pub(crate) fn stack_names(&self, name: &str) -> Vec<String> {
        let frames = (0..).map_while(|i| self.notes.get(&format!("{name}{i}")));
        frames.map(|frame| name_of(frame - 1, self.note("anchor"))).collect()
    }

    /// The one report after which the child was aborted.
    #[track_caller]
    pub(crate) fn aborted(&self) -> &Told {
        self.finished.assert_crash(Crash::Abort);
        self.only()
    }

    /// As [`aborted`](Self::aborted), by a report of this kind about the case's block.
    #[track_caller]
    pub(crate) fn of(&self, kind: &str, size: usize, align: usize) -> &Told {
        let told = self.aborted().kind(kind);
        told.block(self.note("block"), size, align).taken_in_case()
    }

    /// The one report there is.
    #[track_caller]
    pub(crate) fn only(&self) -> &Told {
        assert_eq!(self.reports.len(), 1, "{}: one report\n{}", self.config.name(), self.finished);
        &self.reports[0]
    }

    /// The case went through to its end.
    #[track_caller]
    pub(crate) fn ended(&self) -> &Self {
        self.finished.assert_code(0);
        assert_eq!(self.note("done"), 1);
        self
    }

    /// Nothing was reported, though at least `blocks` blocks were guarded as the configuration says.
    #[track_caller]
    pub(crate) fn quiet(&self, blocks: usize) -> &Self {
        self.ended();
        let guarded = self.note(if self.config.has_pages() { "guarded" } else { "cookies" });
        assert!(
            guarded >= blocks,
            "{}: only {guarded} of {blocks} blocks were guarded\n{}",
            self.config.name(),
            self.finished
        );
        assert_eq!(self.note("unguarded"), 0, "{}", self.config.name());
        assert_eq!((self.note("reports"), self.reports.len()), (0, 0), "{}\n{}", self.config.name(), self.finished);
        self
    }
}
