//! A device that unwinds at a question, and a log of what it was asked.

use super::*;

pub static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
pub type Memory = Scoped<&'static FromGlobalAlloc<System>>;

pub fn memory() -> Memory {
    Scoped::new(&SYSTEM, Scope::Device)
}

/// What happened, in order, to all cards that share it.
pub type Log = RefCell<Vec<String>>;

pub struct Card<'l> {
    pub name: u32,
    pub seat: MembershipCell,
    pub says: DeviceCapabilities,
    /// At this question.
    pub unwinds: Option<&'static str>,
    pub link: Option<LinkClass>,
    pub log: &'l Log,
}

impl<'l> Card<'l> {
    /// One of driver 1, which says nothing of itself.
    pub fn new(name: u32, log: &'l Log) -> Self {
        let says = DeviceCapabilities { driver: Some(1), ..DeviceCapabilities::default() };
        Self { name, seat: MembershipCell::new(), says, unwinds: None, link: None, log }
    }

    fn note(&self, what: &'static str) {
        self.log.borrow_mut().push(format!("{what} {}", self.name));
        if self.unwinds == Some(what) {
            // Quietly: no hook is run.
            resume_unwind(Box::new("planted"));
        }
    }
}

/// These, in a list.
pub fn listed<T>(devices: impl IntoIterator<Item = T>) -> TryVec<T, Memory> {
    let mut list = TryVec::new_in(memory());
    for device in devices {
        let pushed = list.try_push(device).map_err(|refused| refused.error);
        pushed.expect("memory of the system");
    }
    list
}

pub type Made<T> = Result<DeviceGroup<T, Memory>, Rejected<TryVec<T, Memory>, GroupError<<T as GroupDevice>::Error>>>;

/// A group of these.
pub fn group<T: GroupDevice>(devices: impl IntoIterator<Item = T>) -> Made<T> {
    DeviceGroup::new(listed(devices))
}

pub fn cards<'l>(count: u32, log: &'l Log) -> Vec<Card<'l>> {
    (0..count).map(|name| Card::new(name, log)).collect()
}

impl GroupDevice for Card<'_> {
    type Error = Infallible;

    fn membership_cell(&self) -> &MembershipCell {
        &self.seat
    }

    fn capabilities(&self) -> Result<DeviceCapabilities, Infallible> {
        self.note("capabilities");
        Ok(self.says)
    }

    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), Infallible> {
        let question = format!("refine {} {}", self.name, other.name);
        self.log.borrow_mut().push(question);
        if self.unwinds == Some("refine") {
            resume_unwind(Box::new("planted"));
        }
        edge.link = self.link.unwrap_or(edge.link);
        Ok(())
    }
}

impl Drop for Card<'_> {
    fn drop(&mut self) {
        self.note("drop");
    }
}
