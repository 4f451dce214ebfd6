//! From addresses to the numbers of a trace.
//!
//! The map has the last block of each address. It is never removed: a free of an address of a freed block is a second
//! free, and names that block again. An address that is returned while its block is live is that block returned again,
//! with the same number (V8); if events were lost, it counts as a new block.

#![forbid(unsafe_code)]

use alloc_core::{HostError, HostSource, TryMap};

use super::log::LogRecord;
use crate::trace::{Pointer, TraceEvent};

pub(super) struct Names<A: HostSource> {
    at: TryMap<u64, Name, A>,
    /// The blocks of running reallocations, by ticket: when the call returns, the address may be another block's.
    in_transit: TryMap<usize, Name, A>,
    blocks: u64,
    unknown: u64,
    losses: u64,
}

#[derive(Clone, Copy)]
struct Name {
    pointer: Pointer,
    /// The losses before its allocation, while it is live.
    live: Option<u64>,
}

impl<A: HostSource + Clone> Names<A> {
    pub(super) fn new(memory: A) -> Self {
        Self {
            at: TryMap::new_in(memory.clone()),
            in_transit: TryMap::new_in(memory),
            blocks: 0,
            unknown: 0,
            losses: 0,
        }
    }

    /// Records come in the order of the log.
    pub(super) fn event(&mut self, record: &LogRecord) -> Result<TraceEvent<'static>, HostError> {
        self.losses = self.losses.saturating_add(u64::from(record.lost_before > 0));
        let mut event = record.event;
        match &mut event {
            TraceEvent::Seen { block, .. } => *block = self.known(*block, Seen::Named)?.pointer,
            TraceEvent::Allocate { block, .. } => *block = self.name_of(*block)?,
            TraceEvent::ReallocateBegin { old, .. } => {
                let name = self.known(*old, Seen::Goes)?;
                self.in_transit.try_insert(record.ticket, name)?;
                *old = name.pointer;
            }
            TraceEvent::Reallocate { old, new, asked, .. } => {
                let name = match self.in_transit.remove(&record.ticket) {
                    Some(name) => name,
                    // Its beginning was lost.
                    None => self.known(*old, Seen::Goes)?,
                };
                if *new == Pointer::Null && asked.size > 0 {
                    self.stays(*old, name);
                }
                *old = name.pointer;
                *new = self.name_of(*new)?;
            }
            TraceEvent::Free { block, .. } => *block = self.known(*block, Seen::Goes)?.pointer,
            _ => {}
        }
        Ok(event)
    }

    fn name_of(&mut self, at: Pointer) -> Result<Pointer, HostError> {
        let Pointer::Unknown(at) = at else {
            return Ok(Pointer::Null);
        };
        if let Some(name) = self.at.get(&at).filter(|name| name.live == Some(self.losses)) {
            return Ok(name.pointer);
        }
        let number = self.blocks.saturating_add(1);
        let name = Name { pointer: Pointer::Block(number), live: Some(self.losses) };
        self.at.try_insert(at, name)?;
        self.blocks = number;
        Ok(name.pointer)
    }

    /// The last block of this address, as it was before.
    fn known(&mut self, at: Pointer, seen: Seen) -> Result<Name, HostError> {
        let Pointer::Unknown(at) = at else {
            return Ok(Name { pointer: Pointer::Null, live: None });
        };
        let number = self.unknown.saturating_add(1);
        let unknown = |_: &u64| Name { pointer: Pointer::Unknown(number), live: None };
        let name = self.at.try_get_or_insert_with(at, unknown)?;
        let before = *name;
        if matches!(seen, Seen::Goes) {
            name.live = None;
        }
        if before.pointer == Pointer::Unknown(number) {
            self.unknown = number;
        }
        Ok(before)
    }

    /// A reallocation failed: the block stays, unless its address was returned for another meanwhile.
    fn stays(&mut self, at: Pointer, before: Name) {
        if let Pointer::Unknown(at) = at
            && let Some(name) = self.at.get_mut(&at)
            && name.pointer == before.pointer
        {
            name.live = before.live;
        }
    }
}

#[derive(Clone, Copy)]
enum Seen {
    Named,
    Goes,
}
