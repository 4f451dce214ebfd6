//! A device that can refuse anything, and a log of what it was asked.

use std::alloc::System;
use std::cell::RefCell;
use std::fmt;

use alloc_core::{FromGlobalAlloc, Rejected, Scope, Scoped, TryVec};
use gpu_suballoc::DeviceGroup;
use gpu_suballoc::group::{
    DeviceCapabilities, Edge, GroupDevice, GroupError, LinkClass, MembershipCell,
};

pub(crate) static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
pub(crate) type Memory = Scoped<&'static FromGlobalAlloc<System>>;

pub(crate) fn memory() -> Memory {
    Scoped::new(&SYSTEM, Scope::Device)
}

/// What happened, in order, to all cards that share it.
pub(crate) type Log = RefCell<Vec<String>>;

/// At which question a card refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuses {
    Nothing,
    Capabilities,
    Refine,
    /// All, by unwinding: the question's word.
    Unwinding(&'static str),
}

/// Its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct No(pub(crate) u32);

impl fmt::Display for No {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "card {} says no", self.0)
    }
}

impl std::error::Error for No {}

pub(crate) struct Card<'l> {
    pub(crate) name: u32,
    pub(crate) seat: MembershipCell,
    pub(crate) says: DeviceCapabilities,
    pub(crate) refuses: Refuses,
    pub(crate) link: Option<LinkClass>,
    pub(crate) log: &'l Log,
}

impl<'l> Card<'l> {
    /// One of driver 1, which says nothing of itself.
    pub(crate) fn new(name: u32, log: &'l Log) -> Self {
        let says = DeviceCapabilities {
            driver: Some(1),
            ..DeviceCapabilities::default()
        };
        Self {
            name,
            seat: MembershipCell::new(),
            says,
            refuses: Refuses::Nothing,
            link: None,
            log,
        }
    }

    fn note(&self, what: &'static str) {
        self.log.borrow_mut().push(format!("{what} {}", self.name));
        if self.refuses == Refuses::Unwinding(what) {
            // Quietly: no hook is run.
            std::panic::resume_unwind(Box::new("planted"));
        }
    }
}

/// These, in a list.
pub(crate) fn listed<T>(devices: impl IntoIterator<Item = T>) -> TryVec<T, Memory> {
    let mut list = TryVec::new_in(memory());
    list.try_extend(devices).expect("memory of the system");
    list
}

pub(crate) type Made<T> = Result<
    DeviceGroup<T, Memory>,
    Rejected<TryVec<T, Memory>, GroupError<<T as GroupDevice>::Error>>,
>;

/// A group of these.
pub(crate) fn group<T: GroupDevice>(devices: impl IntoIterator<Item = T>) -> Made<T> {
    DeviceGroup::new(listed(devices))
}

pub(crate) fn cards<'l>(count: u32, log: &'l Log) -> Vec<Card<'l>> {
    (0..count).map(|name| Card::new(name, log)).collect()
}

impl GroupDevice for Card<'_> {
    type Error = No;

    fn membership_cell(&self) -> &MembershipCell {
        &self.seat
    }

    fn capabilities(&self) -> Result<DeviceCapabilities, No> {
        self.note("capabilities");
        if self.refuses == Refuses::Capabilities {
            Err(No(self.name))
        } else {
            Ok(self.says)
        }
    }

    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), No> {
        self.log
            .borrow_mut()
            .push(format!("refine {} {}", self.name, other.name));
        if self.refuses == Refuses::Unwinding("refine") {
            std::panic::resume_unwind(Box::new("planted"));
        }
        if self.refuses == Refuses::Refine {
            return Err(No(self.name));
        }
        edge.link = self.link.unwrap_or(edge.link);
        Ok(())
    }

    fn region_tag(&self) -> Option<u32> {
        Some(self.name + 1000)
    }
}

impl Drop for Card<'_> {
    fn drop(&mut self) {
        self.note("drop");
    }
}
