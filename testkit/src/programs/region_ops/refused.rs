//! Failures on purpose: the n-th host request, the n-th device command, or both; then the same again without.

use super::program::{LIVE, RegionProgram};
use super::{RegionRefusal, Regions};

impl<S: Regions> RegionProgram<'_, S> {
    pub(super) fn refused(&mut self) -> Option<bool> {
        let (how, ask) = (self.bytes.next()?, self.request()?);
        if self.side().model.entries.len() >= LIVE {
            return Some(false);
        }
        let (host, device) = (u64::from(how & 3), u64::from(how >> 2 & 3));
        let side = self.side();
        match how >> 4 & 3 {
            0 => side.subject.refuse(Some(host), None),
            1 => side.subject.refuse(None, Some(device)),
            _ => side.subject.refuse(Some(host), Some(device)),
        }
        let first = side.subject.allocate(&ask);
        side.subject.refuse(None, None);
        let failed = match first {
            Err(no @ (RegionRefusal::Host | RegionRefusal::Device)) => no,
            other => return Some(self.check_answer(&ask, other, true)),
        };
        self.tried.note(if failed == RegionRefusal::Host {
            "refused by the host"
        } else {
            "refused by the device"
        });
        let side = self.side();
        side.model.compare_walk(&side.subject);
        let again = self.side().subject.allocate(&ask);
        Some(self.check_answer(&ask, again, false))
    }
}
