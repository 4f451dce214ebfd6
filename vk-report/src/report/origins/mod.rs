//! Counts blocks by where they came from.
//!
//! ```text
//!  driver --> SiteCallbacks --> bridge       a live run: stacks, by StackCapture
//!                  |
//!             SiteRecorder <-- lines of a trace: no stacks
//!                  |
//!        CallSites, Leaks, EventLog
//! ```

mod alive;
mod capture;
mod command_blocks;
mod events;

use std::collections::HashMap;

use alloc_core::Scope;

use crate::report::{BlockSum, CallSite, CallSites, LeakFrame};

pub use capture::{SiteCallbacks, StackCapture};
use command_blocks::CommandBlocks;
use events::EventRecorder;
pub use events::{BlockEvent, CommandSpan, EventLog};

const MIN_CLASS: u64 = 16;

/// Counts blocks by site, and stores each live block. Numbers of blocks are the caller's: addresses, or those of a
/// trace.
#[derive(Debug, Default)]
pub struct SiteRecorder {
    names: FrameNames,
    frames: HashMap<LeakFrame, usize>,
    frame_list: Vec<LeakFrame>,
    stacks: Vec<Vec<usize>>,
    places: HashMap<SiteKey, usize>,
    sites: Vec<SiteCounts>,
    live: HashMap<u64, LiveBlock>,
    of_command: HashMap<u64, CommandBlocks>,
    commands: u64,
    phase: u32,
    blocks: u64,
    live_bytes: u64,
    peak: Peak,
    lost: u64,
    events: Option<EventRecorder>,
}

/// Where a block comes from.
#[derive(Clone, Copy, Debug)]
pub struct BlockOrigin<'n> {
    /// The context that serves it.
    pub context: &'n str,
    /// The command that runs; empty outside of commands.
    pub command: &'n str,
    /// `None` for a scope that Vulkan does not have.
    pub scope: Option<Scope>,
    /// A stack of [`SiteRecorder::add_stack`].
    pub stack: Option<usize>,
}

/// The moment and the thread of a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Nanoseconds from the beginning of the run.
    pub at: u64,
    /// The number of the thread.
    pub thread: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct SiteKey {
    context: usize,
    command: usize,
    scope: Option<Scope>,
    size_class: u64,
    stack: Option<usize>,
}

/// A live block.
#[derive(Clone, Copy, Debug)]
pub struct LiveBlock {
    site: usize,
    /// Its size.
    pub bytes: u64,
    phase: u32,
    /// How many blocks had been allocated before.
    born: u64,
    /// The number of the command that allocated it; 0 for none.
    command: u64,
    /// The object that its command created; 0 for none.
    handle: u64,
    /// When it was allocated, as [`Moment::at`].
    at: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct SiteCounts {
    key: SiteKey,
    total: BlockSum,
    now: BlockSum,
    fullest: BlockSum,
    most: BlockSum,
    lifetimes: u64,
    at_peak: BlockSum,
    peak_number: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    bytes: u64,
    at: u64,
    number: u64,
}

#[derive(Debug, Default)]
struct FrameNames {
    places: HashMap<String, usize>,
    list: Vec<String>,
}

impl FrameNames {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.list.len();
        self.list.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }

    fn name(&self, place: usize) -> String {
        self.list.get(place).cloned().unwrap_or_default()
    }
}

impl SiteRecorder {
    /// Also keeps each change, command and phase, for a profile: about 50 bytes a change.
    #[must_use]
    pub fn with_events(mut self) -> Self {
        self.events = Some(EventRecorder::default());
        self
    }

    /// Stores a stack, innermost frame first. The same stack may be stored again, and has another place then.
    pub(crate) fn add_stack(&mut self, frames: impl Iterator<Item = LeakFrame>) -> usize {
        let stack = frames
            .map(|frame| {
                let next = self.frame_list.len();
                *self.frames.entry(frame).or_insert_with_key(|frame| {
                    self.frame_list.push(frame.clone());
                    next
                })
            })
            .collect();
        self.stacks.push(stack);
        self.stacks.len() - 1
    }

    /// A block was allocated.
    pub fn allocate(&mut self, block: u64, origin: BlockOrigin<'_>, bytes: u64, moment: Moment) {
        let size_class = match bytes {
            0 => 0,
            // Sizes beyond the largest power of two have no block.
            some => some.max(MIN_CLASS).checked_next_power_of_two().unwrap_or(u64::MAX),
        };
        let key = SiteKey {
            context: self.names.place(origin.context),
            command: self.names.place(origin.command),
            scope: origin.scope,
            size_class,
            stack: origin.stack,
        };
        let next = self.sites.len();
        let site = *self.places.entry(key).or_insert(next);
        if site == next {
            self.sites.push(SiteCounts { key, peak_number: self.peak.number, ..SiteCounts::default() });
        }
        let command = self.of_command.get(&moment.thread);
        let live = LiveBlock {
            site,
            bytes,
            phase: self.phase,
            born: self.blocks,
            command: command.map_or(0, |blocks| blocks.command),
            handle: 0,
            at: moment.at,
        };
        self.blocks = self.blocks.saturating_add(1);
        self.insert(block, live, moment);
        self.change(site, |counts| counts.grow(1, bytes));
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        self.reach_peak();
        self.note(block, site, signed(bytes), moment);
        if let Some(events) = &mut self.events {
            events.allocated(bytes, moment.thread);
        }
    }

    /// A block was freed. Does nothing for an unknown block.
    pub fn free(&mut self, block: u64, moment: Moment) {
        if let Some(live) = self.begin_resize(block, moment) {
            self.end_free(live);
        }
    }

    /// A resize to size 0 has freed the block. Its number may be another block's by now and is not changed.
    pub fn end_free(&mut self, live: LiveBlock) {
        let lived = self.blocks.saturating_sub(live.born);
        self.change(live.site, |counts| {
            counts.shrink(1, live.bytes);
            counts.lifetimes = counts.lifetimes.saturating_add(lived);
        });
        self.live_bytes = self.live_bytes.saturating_sub(live.bytes);
    }

    /// If another block has this number, its free was missed: it is freed now.
    fn insert(&mut self, block: u64, live: LiveBlock, moment: Moment) {
        if let Some(former) = self.live.insert(block, live) {
            let bytes = signed(former.bytes).saturating_neg();
            self.note(block, former.site, bytes, moment);
            self.end_free(former);
        }
        if let Some(blocks) = self.of_command.get_mut(&moment.thread)
            && blocks.command == live.command
        {
            blocks.push(block, &self.live);
        }
    }

    /// A block may get another size and number: until [`end_resize`](Self::end_resize) it has no number, and its bytes
    /// stay live.
    pub fn begin_resize(&mut self, block: u64, moment: Moment) -> Option<LiveBlock> {
        let live = self.live.remove(&block)?;
        self.note(block, live.site, signed(live.bytes).saturating_neg(), moment);
        Some(live)
    }

    /// The block stays with the site that allocated it.
    pub fn end_resize(&mut self, live: LiveBlock, block: u64, bytes: u64, moment: Moment) {
        self.insert(block, LiveBlock { bytes, ..live }, moment);
        self.change(live.site, |counts| {
            if bytes >= live.bytes {
                counts.grow(0, bytes - live.bytes);
            } else {
                counts.shrink(0, live.bytes - bytes);
            }
        });
        self.live_bytes = self.live_bytes.saturating_sub(live.bytes).saturating_add(bytes);
        self.reach_peak();
        self.note(block, live.site, signed(bytes), moment);
    }

    /// A thread begins a command: what it allocates from now on is the command's own.
    pub fn begin_command(&mut self, name: &str, moment: Moment) {
        self.commands = self.commands.saturating_add(1);
        self.of_command.entry(moment.thread).or_default().begin(self.commands);
        if let Some(events) = &mut self.events {
            events.begin_command(name, moment);
        }
    }

    /// The innermost command of the thread ended.
    pub fn end_command(&mut self, moment: Moment) {
        if let Some(events) = &mut self.events {
            events.end_command(moment);
        }
    }

    /// The command that the thread runs, or ran last, created an object. Of several objects of one command none owns
    /// the command's blocks.
    pub fn created(&mut self, thread: u64, handle: u64) {
        if let Some(blocks) = self.of_command.get_mut(&thread) {
            blocks.created(handle, &mut self.live);
        }
    }

    /// A phase ended, and what is allocated from now on is of the next one. `is_fullest`: the contexts hold most of all
    /// times now.
    pub fn end_phase(&mut self, is_fullest: bool, at: u64) {
        if let Some(events) = &mut self.events {
            events.end_phase(at);
        }
        self.phase = self.phase.saturating_add(1);
        if is_fullest {
            for site in &mut self.sites {
                site.fullest = site.now;
            }
        }
    }

    /// A block was lost for want of memory.
    pub fn lose(&mut self) {
        self.lost = self.lost.saturating_add(1);
    }

    /// The events, if they were recorded; none are recorded from now on.
    #[must_use]
    pub fn drain_events(&mut self) -> EventLog {
        self.events.take().map(EventRecorder::into_log).unwrap_or_default()
    }

    /// All sites.
    #[must_use]
    pub fn sites(&self) -> CallSites {
        let site = |counts: &SiteCounts| CallSite {
            context: self.names.name(counts.key.context),
            command: self.names.name(counts.key.command),
            scope: counts.key.scope.map_or("", Scope::name).to_owned(),
            size_class: counts.key.size_class,
            stack: counts.key.stack,
            total: counts.total,
            live: counts.fullest,
            at_peak: counts.before_peak(self.peak.number),
            most: counts.most,
            left: counts.now,
            lifetimes: counts.lifetimes,
        };
        let mut sites: Vec<_> = self.sites.iter().map(site).collect();
        for live in self.live.values() {
            if let Some(site) = sites.get_mut(live.site) {
                let lived = self.blocks.saturating_sub(live.born);
                site.lifetimes = site.lifetimes.saturating_add(lived);
            }
        }
        CallSites {
            frames: self.frame_list.clone(),
            stacks: self.stacks.clone(),
            sites,
            blocks: self.blocks,
            most_at: self.peak.at,
            lost: self.lost,
        }
    }

    fn change(&mut self, site: usize, change: impl FnOnce(&mut SiteCounts)) {
        let number = self.peak.number;
        if let Some(counts) = self.sites.get_mut(site) {
            counts.at_peak = counts.before_peak(number);
            counts.peak_number = number;
            change(counts);
        }
    }

    fn reach_peak(&mut self) {
        if self.live_bytes > self.peak.bytes {
            self.peak = Peak { bytes: self.live_bytes, at: self.blocks, number: self.peak.number.saturating_add(1) };
        }
    }

    fn note(&mut self, block: u64, site: usize, bytes: i64, moment: Moment) {
        if let Some(events) = &mut self.events {
            events.change(block, site, bytes, moment);
        }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl SiteCounts {
    /// A count that has changed since the peak was saved by its first change.
    fn before_peak(&self, number: u64) -> BlockSum {
        if self.peak_number == number { self.at_peak } else { self.now }
    }

    fn grow(&mut self, blocks: u64, bytes: u64) {
        let more = BlockSum { blocks, bytes };
        self.total = self.total.plus(more);
        self.now = self.now.plus(more);
        if self.now.bytes >= self.most.bytes {
            self.most = self.now;
        }
    }

    fn shrink(&mut self, blocks: u64, bytes: u64) {
        self.now =
            BlockSum { blocks: self.now.blocks.saturating_sub(blocks), bytes: self.now.bytes.saturating_sub(bytes) };
    }
}

#[cfg(test)]
mod tests;
