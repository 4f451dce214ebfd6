//! The blocks that a thread allocated in the command that it runs, or ran last: an object that the command creates owns
//! them.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::LiveBlock;

/// Shorter lists keep numbers of freed blocks.
const MIN_SWEPT: usize = 256;

/// A number may be another block's by now, so that it counts only where the live block is of this command.
#[derive(Debug, Default)]
pub(super) struct CommandBlocks {
    /// The command's own number; 0 before the first one.
    pub(super) command: u64,
    pub(super) numbers: Vec<u64>,
    sweep_at: usize,
    has_object: bool,
}

impl CommandBlocks {
    pub(super) fn begin(&mut self, command: u64) {
        self.command = command;
        self.numbers.clear();
        self.sweep_at = MIN_SWEPT;
        self.has_object = false;
    }

    pub(super) fn push(&mut self, block: u64, live: &HashMap<u64, LiveBlock>) {
        self.numbers.push(block);
        if self.numbers.len() >= self.sweep_at {
            let command = self.command;
            self.numbers.retain(|number| live.get(number).is_some_and(|of| of.command == command));
            // The list doubles before the next time, so that a block is checked twice at most.
            self.sweep_at = self.numbers.len().saturating_mul(2).max(MIN_SWEPT);
        }
    }

    /// Of several objects of one command it is not known which owns which block: then none does.
    pub(super) fn created(&mut self, handle: u64, live: &mut HashMap<u64, LiveBlock>) {
        let handle = if self.has_object { 0 } else { handle };
        self.has_object = true;
        for number in &self.numbers {
            if let Some(block) = live.get_mut(number)
                && block.command == self.command
            {
                block.handle = handle;
            }
        }
    }
}
