#![forbid(unsafe_code)]

use std::fmt;

use super::{WIDTH, one_line, paragraph};
use crate::report::{FailRun, GuardReport, GuardRun, Refusal, Refusals};
use crate::units::bytes;

/// As [`paragraph`], in the width of lists.
pub(super) fn listed(f: &mut fmt::Formatter<'_>, head: &str, text: &str) -> fmt::Result {
    paragraph(f, head, text, WIDTH)
}

impl fmt::Display for GuardRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_pages = self.mode == "fence" || self.mode == "strict" || self.mode.starts_with("sampled");
        let [mode, back_end] = [&self.mode, &self.back_end].map(|text| one_line(text));
        match (with_pages, back_end.as_str()) {
            (true, "cookies") => {
                let what = "nothing here makes pages untouchable: cookies serve instead, which find mistakes later, and reads never";
                listed(f, "guard: ", &format!("{mode}, but {what}"))?;
            }
            (true, _) => writeln!(f, "guard: {mode}, with {back_end}")?,
            (false, _) => writeln!(f, "guard: {mode}")?,
        }
        for reason in self.not_offered.iter().filter(|_| with_pages) {
            listed(f, "  not offered: ", reason)?;
        }
        self.blocks(f)?;
        let Self { own_blocks, bytes: sum, stacks, whole_stacks, reserved_bytes, .. } = self;
        writeln!(
            f,
            "  and {own_blocks} blocks of the accounts' own; {} charged in all, {} of addresses",
            bytes(*sum),
            bytes(*reserved_bytes)
        )?;
        if let (Some(before), Some(after)) = (self.mappings_before, self.mappings_after) {
            writeln!(f, "  mappings of the process: {before} before the run, {after} after it")?;
        }
        writeln!(f, "  stacks that reach their command: {whole_stacks} of {stacks}")?;
        writeln!(f, "  reports: {}", if self.reports == 0 { "none".to_owned() } else { self.reports.to_string() })?;
        self.told.iter().try_for_each(|told| told.fmt(f))
    }
}

impl GuardRun {
    fn blocks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { callback_blocks, guarded, cookies, unguarded, own_blocks, .. } = self;
        if self.mode == "cookie" {
            let of_driver = cookies.saturating_sub(*own_blocks);
            let equal = if of_driver == *callback_blocks { "= callback blocks" } else { "of the callback blocks," };
            return writeln!(f, "  with cookies {equal} = {callback_blocks}");
        }
        // Sampling does not distinguish the driver's blocks from the accounts' own, and neither do blocks without
        // pages.
        let all = callback_blocks.saturating_add(*own_blocks);
        if self.mode.starts_with("sampled") {
            return writeln!(
                f,
                "  guarded = {guarded} of {all} blocks, as they were chosen, the accounts' own among them"
            );
        }
        if self.is_whole() {
            return writeln!(f, "  guarded = callback blocks = {callback_blocks}, unguarded = 0");
        }
        writeln!(
            f,
            "  guarded = {guarded} of {all} blocks, the accounts' own among them, unguarded = {unguarded}: those have cookies"
        )
    }
}

impl fmt::Display for GuardReport {
    /// As the guard worded it, set in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.lines().try_for_each(|line| writeln!(f, "    {}", one_line(line)))
    }
}

impl fmt::Display for FailRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusals().fmt(f)?;
        match &self.ended {
            Some(ended) => listed(f, "  the workload ended: ", ended),
            None if self.refused > 0 => {
                writeln!(f, "  the workload went on to its end all the same")
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for Refusals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailRun { plan, requests, refused, first, asked, ended } = self.0;
        writeln!(f, "refused on purpose ({}): {refused} of {requests} requests", one_line(plan))?;
        first.iter().try_for_each(|refusal| refusal.fmt(f))?;
        let more = refused.saturating_sub(first.len() as u64);
        if more > 0 {
            writeln!(f, "  and {more} more")?;
        }
        if ended.is_some() || self.0.met_its_plan() {
            return Ok(());
        }
        let last = requests.saturating_sub(1);
        listed(f, "  ", &format!("nothing that was asked for met the plan: requests have the numbers 0 to {last}"))?;
        let asked = asked.join(", ");
        let letters = "names are written as here, and stand for no context below them";
        if asked.is_empty() { Ok(()) } else { listed(f, "  those that asked: ", &format!("{asked}; {letters}")) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, serial, owner, scope, bytes } = self;
        let [command, owner, scope] = [command, owner, scope].map(|text| one_line(text));
        let place = if command.is_empty() {
            "outside of any command".to_owned()
        } else {
            format!("in {command}, command {serial}")
        };
        writeln!(f, "  {place}: {bytes} charged bytes of scope {scope}, asked of the callbacks of {owner}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(mode: &str, back_end: &str) -> GuardRun {
        GuardRun {
            mode: mode.into(),
            back_end: back_end.into(),
            callback_blocks: 7,
            own_blocks: 3,
            ..GuardRun::default()
        }
    }

    #[test]
    fn a_whole_guard_says_so_and_one_that_is_not_says_how_many_are_missing() {
        let whole = GuardRun { guarded: 7, ..run("strict", "userfaultfd-move") };
        let text = whole.to_string();
        assert!(whole.is_whole() && text.contains("guard: strict, with userfaultfd-move\n"), "{text}");
        assert!(text.contains("  guarded = callback blocks = 7, unguarded = 0\n"), "{text}");
        let short = GuardRun { guarded: 5, cookies: 2, unguarded: 2, ..whole };
        let text = short.to_string();
        assert!(
            !short.is_whole() && text.contains("guarded = 5 of 10 blocks, the accounts' own among them, unguarded = 2"),
            "{text}"
        );
    }

    #[test]
    fn cookies_in_place_of_pages_are_admitted() {
        let why = "mprotect: it was denied".to_owned();
        let text =
            GuardRun { not_offered: vec![why], unguarded: 7, cookies: 10, ..run("fence", "cookies") }.to_string();
        assert!(
            text.contains("guard: fence, but nothing here makes pages untouchable: cookies serve instead"),
            "{text}"
        );
        assert!(text.contains("  not offered: mprotect: it was denied\n"), "{text}");
        let text = GuardRun { cookies: 10, ..run("cookie", "cookies") }.to_string();
        assert!(text.starts_with("guard: cookie\n  with cookies = callback blocks = 7\n"), "{text}");
    }

    #[test]
    fn a_report_is_shown_as_it_was_worded_and_cannot_steer_the_terminal() {
        let told = GuardReport { text: "overflow\n  of\u{1b}[2J a block".into(), ..GuardReport::default() };
        let text = GuardRun { reports: 1, told: vec![told], ..run("fence", "mprotect") }.to_string();
        assert!(text.ends_with("  reports: 1\n    overflow\n      of [2J a block\n"), "{text}");
    }

    #[test]
    fn refusals_name_command_scope_and_owner() {
        let first = Refusal {
            command: "vkCreateBuffer".into(),
            serial: 9,
            owner: "VkBuffer".into(),
            scope: "object".into(),
            bytes: 128,
        };
        let fail = FailRun { plan: "nth=3".into(), requests: 4, refused: 1, first: vec![first], ..FailRun::default() };
        let text = fail.to_string();
        assert!(
            text.starts_with(
                "refused on purpose (nth=3): 1 of 4 requests\n  in vkCreateBuffer, command 9: 128 charged bytes"
            ),
            "{text}"
        );
        assert!(text.contains("of scope object, asked of the callbacks of VkBuffer\n"), "{text}");
        assert!(text.ends_with("to its end all the same\n") && fail.ended_as_it_should(), "{text}");
        let of_program = fail.refusals().to_string();
        assert!(text.starts_with(&of_program) && !of_program.contains("to its end"), "{of_program}");
        let ended = Some("vkCreateBuffer answered ERROR_UNKNOWN: ..".to_owned());
        assert!(!FailRun { ended, ..fail }.ended_as_it_should());
    }

    #[test]
    fn a_plan_that_nothing_met_is_a_failure_with_a_remedy() {
        let unmet = FailRun {
            plan: "context=vkbuffer:0".into(),
            requests: 4,
            asked: vec!["VkBuffer (object)".into()],
            ..FailRun::default()
        };
        assert!(!unmet.met_its_plan());
        assert!(
            unmet
                .to_string()
                .contains("requests have the numbers 0 to 3\n  those that asked: VkBuffer (object); names"),
            "{unmet}"
        );
        assert!(FailRun { plan: "never".into(), ..unmet }.met_its_plan());
    }
}
