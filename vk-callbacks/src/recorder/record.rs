//! The records of the log: small plain data with addresses.

#![forbid(unsafe_code)]

use alloc_core::NoticeEvent;

use crate::raw::RawRequest;
use crate::trace::Sighting;

/// A recorded event of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRecord {
    /// The thread's number.
    pub(super) thread: u64,
    /// Events lost since the record before.
    pub(super) lost_before: usize,
    pub(super) what: LogEvent,
}

/// An event. Addresses are numbers: nothing is accessed through them.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogEvent {
    Owner {
        owner: u64,
        parent: u64,
        kind: &'static str,
    },
    Phase {
        name: &'static str,
    },
    Enter {
        owner: u64,
        command: &'static str,
    },
    Leave {
        result: i32,
    },
    Created {
        owner: u64,
        handle: u64,
        kind: &'static str,
    },
    Destroyed {
        owner: u64,
        handle: u64,
        kind: &'static str,
    },
    Seen {
        owner: u64,
        at: usize,
        what: Sighting,
    },
    Allocate {
        owner: u64,
        at: usize,
        asked: RawRequest,
    },
    /// `ticket` connects the end of a reallocation with its beginning.
    ReallocateBegin {
        owner: u64,
        ticket: usize,
        old: usize,
    },
    Reallocate {
        owner: u64,
        ticket: usize,
        old: usize,
        new: usize,
        asked: RawRequest,
    },
    Free {
        owner: u64,
        at: usize,
    },
    Notice {
        owner: u64,
        event: NoticeEvent,
        size: usize,
        kind: i32,
        scope: i32,
    },
}
