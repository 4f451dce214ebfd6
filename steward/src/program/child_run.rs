#![forbid(unsafe_code)]

use std::process::ExitStatus;

use crate::os::{ended_by, is_abort, signal_name};
use vk_report::guard_run::refused::RefusalLog;
use vk_report::report::{Refusal, one_line};

/// Names where the child was if nothing was to be refused, else the last refusal of the plan.
pub(super) fn sentence(
    status: ExitStatus,
    last: Option<(&str, u64)>,
    refusals: Option<&(String, RefusalLog)>,
) -> String {
    let ended = ended(status);
    let Some((plan, refusals)) = refusals else {
        let place = last.map_or("before its first command".to_owned(), |(command, number)| {
            format!("in or after {command}, command {number} with callbacks")
        });
        // This program's own code, which runs there too, ends so when memory is short, and has said it.
        let unless = match ended_by(status) {
            Some(signal) if is_abort(signal) => ", unless the lines above say that memory was short",
            _ => "",
        };
        return format!("the driver's process {ended} {place}: report it to the driver's maintainers{unless}");
    };
    let Some(Refusal { command, serial, owner, scope, bytes }) = &refusals.last else {
        return format!(
            "the driver's process {ended} before a request was refused ({plan}): what ended it is not the refusal"
        );
    };
    let place = if command.is_empty() {
        "outside of any command".to_owned()
    } else {
        format!("in {command}, command {serial}")
    };
    let (refused, s) = (refusals.refused, if refusals.refused == 1 { "" } else { "s" });
    one_line(&format!(
        "the driver's process {ended} after {refused} request{s} had been refused on purpose ({plan}), the last {place}: {bytes} charged bytes of \
         scope {scope}, asked of the callbacks of {owner}; a driver must answer ERROR_OUT_OF_HOST_MEMORY then"
    ))
}

fn ended(status: ExitStatus) -> String {
    match ended_by(status) {
        Some(signal) => format!("crashed ({})", signal_name(signal)),
        None => format!("ended with {status}"),
    }
}

#[cfg(all(test, unix))] // signals
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_crash_names_the_last_refusal_or_says_that_there_was_none() {
        let aborted = ExitStatus::from_raw(libc::SIGABRT);
        let none = ("nth=9".to_owned(), RefusalLog::default());
        let none = sentence(aborted, None, Some(&none));
        assert!(none.contains("crashed (SIGABRT) before a request was refused (nth=9)"), "{none}");
        let command = "vkCmdDraw".to_owned();
        let last = Refusal { command, serial: 7, owner: "VkDevice".into(), scope: "object".into(), bytes: 64 };
        let refusals = RefusalLog { refused: 2, last: Some(last), ..RefusalLog::default() };
        let crashed = ExitStatus::from_raw(libc::SIGSEGV);
        let after = sentence(crashed, None, Some(&("from=9".to_owned(), refusals)));
        assert!(after.contains(
            "after 2 requests had been refused on purpose (from=9), the last in vkCmdDraw, command 7: 64 charged bytes"
        ));
        assert!(after.contains("of scope object, asked of the callbacks of VkDevice;"), "{after}");
    }

    #[test]
    fn an_abort_may_be_for_lack_of_memory() {
        for (signal, is_doubtful) in [(libc::SIGABRT, true), (libc::SIGSEGV, false)] {
            let said = sentence(ExitStatus::from_raw(signal), None, None);
            assert_eq!(said.contains("memory was short"), is_doubtful, "{said}");
        }
    }

    #[test]
    fn a_crash_without_a_refusal_says_where_it_was() {
        let crashed = ExitStatus::from_raw(libc::SIGSEGV);
        let said = sentence(crashed, Some(("vkCreateDevice", 3)), None);
        assert!(said.contains("crashed (SIGSEGV) in or after vkCreateDevice, command 3"), "{said}");
        let said = sentence(crashed, None, None);
        assert!(said.contains("(SIGSEGV) before its first command"), "{said}");
    }
}
