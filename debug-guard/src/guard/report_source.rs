use core::sync::atomic::Ordering::Relaxed;

use super::serial;
use super::state::GuardState;
use crate::block::{Known, SiteId, StoppedAccess};
use crate::call_sites::{CommandMark, SiteView};
use crate::mode::BackEnd;
use crate::os;
use crate::report::{OnReport, ReportingGuard};

impl ReportingGuard for GuardState {
    fn name(&self) -> &'static str {
        self.options.name
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn back_end(&self) -> BackEnd {
        self.back_end
    }

    fn on_report(&self) -> OnReport {
        self.options.on_report
    }

    fn json(&self) -> bool {
        let options = &self.options;
        options.json.unwrap_or_else(|| !os::is_terminal(options.report_to))
    }

    fn report_to(&self) -> i32 {
        self.options.report_to
    }

    fn clock(&self) -> u64 {
        serial::reached()
    }

    fn site(&self, id: SiteId) -> Option<SiteView<'_>> {
        Self::site(self, id)
    }

    fn command(&self) -> Option<CommandMark> {
        self.options.query_command()
    }

    fn covers(&self, address: usize) -> bool {
        self.slots_at(address).is_some()
    }

    fn classify_access(&self, address: usize) -> StoppedAccess {
        self.slots_at(address).map_or(StoppedAccess::WILD, |slots| slots.classify_access(address))
    }

    fn land(&self, address: usize) -> bool {
        self.slots_at(address).is_some_and(|slots| slots.land(address))
    }

    fn claims(&self, address: usize) -> Option<Known> {
        match self.known(address)? {
            Ok(known) => Some(known),
            // A freed block is its guard's too.
            Err(finding) => finding.block.filter(|known| known.start == address),
        }
    }

    fn reported(&self, lost: bool) {
        let counter = if lost { &self.counters.lost } else { &self.counters.reports };
        counter.fetch_add(1, Relaxed);
    }

    fn at_exit(&self) -> Option<i32> {
        self.list_outstanding()
    }
}
