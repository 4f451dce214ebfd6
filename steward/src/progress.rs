//! The progress of a long run, on the error output if that is a terminal.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows no progress.
const PATIENCE: Duration = Duration::from_secs(2);
const DRAWN_A_SECOND: u8 = 10;

/// It has no thread of its own: the work calls [`at`](Self::at).
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    what: String,
    steps: u64,
    bar: RefCell<Option<ProgressBar>>,
}

impl Progress {
    pub(crate) fn new(what: &str, steps: u64) -> Self {
        Self { began: Instant::now(), what: what.to_owned(), steps, bar: RefCell::new(None) }
    }

    /// `done` steps are done, and `next` follows; empty for just the next step.
    pub(crate) fn at(&self, done: u64, next: &str) {
        if self.began.elapsed() < PATIENCE {
            return;
        }
        let mut bar = self.bar.borrow_mut();
        let bar = bar.get_or_insert_with(|| self.bar());
        bar.set_position(done);
        bar.set_message(next.to_owned());
    }

    fn bar(&self) -> ProgressBar {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWN_A_SECOND);
        let bar = ProgressBar::with_draw_target(Some(self.steps), target);
        let template = "{prefix} {wide_bar} {pos}/{len} {msg} {elapsed}";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(self.what.clone());
        bar
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get_mut() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quick_shows_nothing() {
        let quick = Progress::new("work", 7);
        quick.at(3, "");
        assert!(quick.bar.borrow().is_none());
        let mut slow = Progress::new("work", 7);
        slow.began = Instant::now() - PATIENCE;
        slow.at(3, "next");
        let bar = slow.bar.borrow();
        let bar = bar.as_ref().expect("a line");
        assert_eq!((bar.position(), bar.length(), bar.message()), (3, Some(7), "next".to_owned()));
    }
}
