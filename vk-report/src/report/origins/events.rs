#![forbid(unsafe_code)]

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Moment;

/// Changes of blocks, commands and phases of a run. Moments are nanoseconds from its beginning, and never go back in a
/// list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLog {
    /// Each change of a block.
    pub blocks: Vec<BlockEvent>,
    /// The commands in the order in which they ended.
    pub commands: Vec<CommandSpan>,
    /// The end of each phase. A phase begins where the one before ended, the first one at 0.
    pub phase_ends: Vec<u64>,
}

/// A block was allocated or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockEvent {
    /// When: nanoseconds from the beginning of the run.
    pub at: u64,
    /// The number of the thread.
    pub thread: u64,
    /// The place of its site in [`CallSites::sites`](crate::report::CallSites::sites).
    pub site: usize,
    /// The block's number or address.
    pub block: u64,
    /// Bytes: negative when they were freed.
    pub bytes: i64,
}

/// A command, from its call to its return.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpan {
    /// Its name.
    pub name: String,
    /// The number of the thread that called it.
    pub thread: u64,
    /// When it was called.
    pub begin: u64,
    /// When it returned.
    pub end: u64,
    /// Blocks that were allocated on its thread meanwhile; in a command within it as well.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct EventRecorder {
    log: EventLog,
    running: HashMap<u64, Vec<CommandSpan>>,
    last: u64,
}

impl EventRecorder {
    /// The answer is never earlier than a moment that is recorded already.
    fn at(&mut self, at: u64) -> u64 {
        self.last = self.last.max(at);
        self.last
    }

    pub(super) fn change(&mut self, block: u64, site: usize, bytes: i64, moment: Moment) {
        let at = self.at(moment.at);
        self.log.blocks.push(BlockEvent { at, thread: moment.thread, site, block, bytes });
    }

    /// The block belongs to all commands that its thread is in.
    pub(super) fn allocated(&mut self, bytes: u64, thread: u64) {
        for command in self.running.get_mut(&thread).into_iter().flatten() {
            command.blocks = command.blocks.saturating_add(1);
            command.bytes = command.bytes.saturating_add(bytes);
        }
    }

    pub(super) fn begin_command(&mut self, name: &str, moment: Moment) {
        let begin = self.at(moment.at);
        self.running.entry(moment.thread).or_default().push(CommandSpan {
            name: name.to_owned(),
            thread: moment.thread,
            begin,
            ..CommandSpan::default()
        });
    }

    /// A command whose beginning was not reported is not logged.
    pub(super) fn end_command(&mut self, moment: Moment) {
        let end = self.at(moment.at);
        let running = self.running.get_mut(&moment.thread);
        let ended = running.and_then(Vec::pop);
        self.log.commands.extend(ended.map(|command| CommandSpan { end, ..command }));
    }

    pub(super) fn end_phase(&mut self, at: u64) {
        let at = self.at(at);
        self.log.phase_ends.push(at);
    }

    pub(super) fn into_log(self) -> EventLog {
        self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn moment(at: u64, thread: u64) -> Moment {
        Moment { at, thread }
    }

    #[test]
    fn commands_have_the_blocks_of_their_thread_and_moments_never_go_back() {
        let mut events = EventRecorder::default();
        events.begin_command("vkCreateDevice", moment(5, 1));
        events.begin_command("vkCreateBuffer", moment(6, 1));
        events.change(9, 0, 64, moment(7, 1));
        events.allocated(64, 1);
        events.allocated(1000, 2);
        events.end_command(moment(8, 1));
        // A reallocation has the moment at which it began.
        events.change(9, 0, 64, moment(7, 1));
        events.allocated(36, 1);
        events.end_command(moment(10, 1));
        events.end_command(moment(11, 1));
        events.end_phase(12);
        let log = events.into_log();
        let commands: Vec<_> =
            log.commands.iter().map(|one| (&*one.name, one.begin, one.end, one.blocks, one.bytes)).collect();
        assert_eq!(commands, [("vkCreateBuffer", 6, 8, 1, 64), ("vkCreateDevice", 5, 10, 2, 100)]);
        let moments: Vec<_> = log.blocks.iter().map(|block| block.at).collect();
        assert_eq!((moments, log.phase_ends), (vec![7, 8], vec![12]));
    }
}
