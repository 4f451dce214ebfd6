//! From addresses to the numbers of a trace.
//!
//! An address may stand for many blocks, one after the other. Walking the log in order, the map always holds the block that an
//! address was last given as. It is never taken out: a free of an address that names a block already gone is a second free,
//! and says so by naming that block again.

#![forbid(unsafe_code)]

use alloc_core::{HostError, HostSource, TryMap};

use super::record::{Asked, Record, What};
use crate::trace::{Caller, Pointer, Request, TraceEvent};

pub(super) struct Names<A: HostSource> {
    at: TryMap<usize, Pointer, A>,
    /// What was reallocated, by ticket: when the call answers, the address may be somebody else's.
    in_transit: TryMap<usize, Pointer, A>,
    blocks: u64,
    unknown: u64,
}

impl<A: HostSource + Clone> Names<A> {
    pub(super) fn new(memory: A) -> Self {
        Self { at: TryMap::new_in(memory.clone()), in_transit: TryMap::new_in(memory), blocks: 0, unknown: 0 }
    }

    /// The record as a trace says it. Records come in the order of the log.
    pub(super) fn event(&mut self, record: &Record) -> Result<TraceEvent<'static>, HostError> {
        let by = |owner| Caller { thread: record.thread, owner };
        Ok(match record.what {
            What::Owner { owner, parent, kind } => TraceEvent::Owner { owner, parent, kind },
            What::Phase { name } => TraceEvent::Phase { name },
            What::Created { owner, handle, kind } => TraceEvent::Created { by: by(owner), handle, kind },
            What::Destroyed { owner, handle, kind } => TraceEvent::Destroyed { by: by(owner), handle, kind },
            What::Seen { owner, at, what } => TraceEvent::Seen { by: by(owner), block: self.known(at)?, what },
            What::Enter { owner, command } => TraceEvent::Enter { by: by(owner), command },
            What::Leave { result } => TraceEvent::Leave { by: by(0), result },
            What::Allocate { owner, at, asked } => {
                TraceEvent::Allocate { by: by(owner), block: self.given(at)?, asked: request(asked) }
            }
            What::ReallocateBegin { owner, ticket, old } => {
                let old = self.known(old)?;
                self.in_transit.try_insert(ticket, old).map_err(|refused| refused.error)?;
                TraceEvent::ReallocateBegin { by: by(owner), old }
            }
            What::Reallocate { owner, ticket, old, new, asked } => {
                let old = match self.in_transit.remove(&ticket) {
                    Some(old) => old,
                    // Its beginning was lost.
                    None => self.known(old)?,
                };
                TraceEvent::Reallocate { by: by(owner), old, new: self.given(new)?, asked: request(asked) }
            }
            What::Free { owner, at } => TraceEvent::Free { by: by(owner), block: self.known(at)? },
            What::Notice { owner, event, size, kind, scope } => {
                TraceEvent::Notice { by: by(owner), event, size: size as u64, kind, scope }
            }
        })
    }

    /// A block was given at this address.
    fn given(&mut self, at: usize) -> Result<Pointer, HostError> {
        if at == 0 {
            return Ok(Pointer::Null);
        }
        let number = self.blocks.saturating_add(1);
        self.at.try_insert(at, Pointer::Block(number)).map_err(|refused| refused.error)?;
        self.blocks = number;
        Ok(Pointer::Block(number))
    }

    /// What was last given at this address.
    fn known(&mut self, at: usize) -> Result<Pointer, HostError> {
        if at == 0 {
            return Ok(Pointer::Null);
        }
        let number = self.unknown.saturating_add(1);
        let unknown = |_: &usize| Pointer::Unknown(number);
        let pointer = *self.at.try_get_or_insert_with(at, unknown).map_err(|refused| refused.error)?;
        if pointer == Pointer::Unknown(number) {
            self.unknown = number;
        }
        Ok(pointer)
    }
}

const fn request(asked: Asked) -> Request {
    Request { size: asked.size as u64, align: asked.align as u64, scope: asked.scope }
}
