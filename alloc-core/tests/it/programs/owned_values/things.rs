//! What contexts and arenas own in a program: values that write down when they go, and do something then.

use std::mem::take;
use std::sync::{Arc, Mutex};

use alloc_core::{Context, ContextHandle, Foreign, ForeignKind, HostError, Owned, Rejected, TryVec};

/// What values did while they were dropped, in that order.
#[derive(Clone, Debug, Default)]
pub(super) struct DropLog(Arc<Mutex<Vec<Event>>>);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    Dropped(u32),
    /// A destructor's new value was taken over, or refused.
    Owned(u32, Result<Owned<Thing>, HostError>),
    /// A destructor destroyed another value, or it was gone.
    Destroyed(u32, Result<(), HostError>),
    /// A destructor took memory, or was refused.
    Allocated(u32, bool),
}

impl DropLog {
    fn push(&self, event: Event) {
        self.0.lock().expect("no panic inside").push(event);
    }

    pub(super) fn allocated(&self) -> Vec<Event> {
        take(&mut *self.0.lock().expect("no panic inside"))
    }
}

/// A value with a number, a content, and something to do when it goes.
#[derive(Debug)]
pub(super) struct Thing {
    number: u32,
    fill: [u32; 6],
    log: DropLog,
    act: Option<Act>,
}

/// What a value does when it is dropped.
#[derive(Debug)]
pub(super) enum Act {
    /// Nothing; but it holds a handle, perhaps of the context that owns it.
    Holds(#[expect(dead_code, reason = "holding it is all")] ContextHandle),
    /// Gives the context a new value, of this number.
    Owns(ContextHandle, u32),
    /// Destroys another value of the context.
    Destroys(ContextHandle, Owned<Thing>),
    /// Takes 100 bytes of the context and gives them back.
    Allocates(ContextHandle),
    /// Declares 10 bytes, and withdraws them.
    Declares(ContextHandle),
    /// Ends a context that it owns.
    Ends(Context),
}

impl Thing {
    pub(super) fn new(number: u32, log: &DropLog, act: Option<Act>) -> Self {
        Self { number, fill: [number.wrapping_mul(0x9E37_79B9) | 1; 6], log: log.clone(), act }
    }

    /// Checks that it is the one it should be, whole.
    pub(super) fn check(&self, number: u32) {
        assert_eq!(
            (self.number, self.fill),
            (number, [number.wrapping_mul(0x9E37_79B9) | 1; 6]),
            "another value, or a broken one"
        );
    }

    /// Writes over it, with what is there.
    pub(super) fn rewrite(&mut self) {
        self.fill = [self.number.wrapping_mul(0x9E37_79B9) | 1; 6];
    }

    /// Takes away what it would do.
    pub(super) fn defuse(&mut self) -> Option<Act> {
        self.act.take()
    }
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.check(self.number);
        self.fill = [0; 6];
        self.log.push(Event::Dropped(self.number));
        match self.act.take() {
            None | Some(Act::Holds(_)) => {}
            Some(Act::Owns(context, number)) => match context.own(Self::new(number, &self.log, None)) {
                Ok(id) => self.log.push(Event::Owned(number, Ok(id))),
                Err(Rejected { value, error }) => {
                    self.log.push(Event::Owned(number, Err(error)));
                    drop(value);
                }
            },
            Some(Act::Destroys(context, other)) => {
                let destroyed = context.destroy(other);
                self.log.push(Event::Destroyed(self.number, destroyed));
            }
            Some(Act::Allocates(context)) => {
                let taken = TryVec::<u8, _>::try_with_capacity_in(100, context);
                self.log.push(Event::Allocated(self.number, taken.is_ok()));
            }
            Some(Act::Declares(context)) => {
                drop(Foreign::declare(&context, ForeignKind::Mapping, 10).expect("a statement"));
            }
            Some(Act::Ends(context)) => drop(context),
        }
    }
}
