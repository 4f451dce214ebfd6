//! Delivers a report: writes it or passes it to a function; then the process aborts, the thread panics, or the program continues.

use core::fmt::{self, Write};

use super::guard_report::Report;
use super::leak::Leak;
use super::registry::{ReportingGuard, query};
use super::report_context::ReportContext;
use super::scratch::{Out, Scratch, Unavailable, exclusively};
use crate::os;
use crate::report_kind::ReportKind;

/// What becomes of a report.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum OnReport {
    /// Written to the standard error, as text and, unless that is a terminal, as a line of JSON, then the process is aborted.
    #[default]
    Abort,
    /// Written, then the thread panics. Reports of the signal handler abort: a signal cannot unwind.
    Panic,
    /// Written, and the program goes on: a bad free frees nothing, a stopped access gets a page to land on.
    Log,
    /// Passed to a function and not written, then as [`Log`](Self::Log). Called in the signal handler too: it may only do what
    /// signal-safety(7) allows, and takes no memory of the guard.
    Call(fn(&Report<'_>)),
}

/// Name of the place of a pointer outside of the guard's blocks.
const OWN_PAGES: &str = "the guard's own pages";

/// How what is written gets the names of functions: reading debug information takes memory, and no report does.
pub(super) const NAMES: &str =
    "  names of functions: steward symbols FILE, with all of this in FILE\n";

/// Makes the report of `case` and delivers it as the options of `guard` say.
///
/// Returns for [`OnReport::Log`] and [`OnReport::Call`] alone. Unwinds for [`OnReport::Panic`]: no lock may be held.
pub(crate) fn deliver(guard: &dyn ReportingGuard, case: &ReportContext<'_>) {
    pass(guard, case);
    match guard.on_report() {
        OnReport::Abort => os::abort(),
        OnReport::Panic => unwind(case.fault.kind),
        OnReport::Log | OnReport::Call(_) => {}
    }
}

/// As [`deliver`], from a signal handler: nothing unwinds out of there.
pub(super) fn deliver_in_handler(guard: &dyn ReportingGuard, case: &ReportContext<'_>) {
    pass(guard, case);
    match guard.on_report() {
        OnReport::Abort => os::abort(),
        OnReport::Panic => {
            os::write(
                guard.report_to(),
                b"debug-guard: aborts, since nothing can unwind out of a signal handler\n",
            );
            os::abort()
        }
        OnReport::Log | OnReport::Call(_) => {}
    }
}

/// Writes the report, or calls the function.
fn pass(guard: &dyn ReportingGuard, case: &ReportContext<'_>) {
    let made = exclusively(|scratch| match case.fault.owner {
        None => make(guard, Some(guard), case, scratch),
        // Who took a block is written down by the guard that gave it.
        Some(owner) => {
            let made = query(|other| {
                (other.number() == owner).then(|| make(guard, Some(other), case, scratch))
            });
            made.unwrap_or_else(|| make(guard, None, case, scratch));
        }
    });
    guard.reported(made.is_err());
    match made {
        Ok(()) => {}
        Err(Unavailable::Nested) => {
            os::write(
                guard.report_to(),
                b"debug-guard: something else went wrong within a report, and is not told\n",
            );
        }
        Err(Unavailable::Busy) => {
            os::write(
                guard.report_to(),
                b"debug-guard: another thread's report does not end; this one is not told\n",
            );
        }
    }
}

fn make(
    guard: &dyn ReportingGuard,
    home: Option<&dyn ReportingGuard>,
    case: &ReportContext<'_>,
    scratch: &mut Scratch,
) {
    let (modules, mapping, out) = scratch.parts();
    modules.clear();
    let mapping = match case.fault.kind {
        // Map lists have no name for these, and who reads them should not take the pointer for another allocator's.
        ReportKind::ForeignFree if guard.covers(case.fault.address) => OWN_PAGES,
        ReportKind::ForeignFree => {
            os::mapping_at(case.fault.address, mapping).map_or("", |mapping| mapping.name)
        }
        _ => "",
    };
    let known = [case.fault.block, case.other].into_iter().flatten();
    for id in known.flat_map(|known| [known.allocated.site, known.freed.site]) {
        if let Some(site) = home.and_then(|home| home.site(id)) {
            site.frames.iter().for_each(|pc| modules.note(*pc));
        }
    }
    case.stack.frames.iter().for_each(|pc| modules.note(*pc));
    let report = Report::new(guard, home, case, modules, mapping);
    match guard.on_report() {
        OnReport::Call(function) => function(&report),
        _ => {
            let mut out = Out::new(guard.report_to(), out);
            // What cannot be written is lost; there is nobody to tell.
            let _ = write!(out, "{report}").and_then(|()| line(&report, guard.json(), &mut out));
        }
    }
}

fn line(report: &Report<'_>, wanted: bool, out: &mut Out<'_>) -> fmt::Result {
    if wanted {
        report.write_json(out).and_then(|()| out.write_char('\n'))
    } else {
        Ok(())
    }
}

#[cfg(feature = "std")]
#[expect(clippy::panic, reason = "that is what `OnReport::Panic` is for")]
fn unwind(kind: ReportKind) -> ! {
    core::panic!("debug-guard: {}: the report is above", kind.name())
}

#[cfg(not(feature = "std"))]
fn unwind(_: ReportKind) -> ! {
    os::abort()
}

/// Writes one line that is no report: a failure that the guard continues after.
pub(crate) fn notice(guard: &dyn ReportingGuard, text: fmt::Arguments<'_>) {
    // A line needs little, and must not be lost because a report is being made.
    let mut room = [0; 256];
    let mut out = Out::new(guard.report_to(), &mut room);
    let _ = writeln!(out, "debug-guard: notice: guard {:?}: {text}", guard.name());
}

/// Writes the leak list: a headline, then each leak with its stack and a line of JSON.
pub(crate) fn list(
    guard: &dyn ReportingGuard,
    headline: fmt::Arguments<'_>,
    leaks: impl FnOnce(&mut dyn FnMut(&Leak<'_>)),
) {
    notice(guard, headline);
    let mut frames = 0_usize;
    leaks(&mut |leak| {
        frames = frames.saturating_add(leak.block.allocated().stack().frames.len());
        let _ = exclusively(|scratch: &mut Scratch| {
            let (modules, _, out) = scratch.parts();
            modules.clear();
            let stack = leak.block.allocated().stack();
            stack.frames.iter().for_each(|pc| modules.note(*pc));
            let mut out = Out::new(guard.report_to(), out);
            let _ = leak.write((guard.name(), guard.json()), modules, &mut out);
        });
    });
    if frames > 0 {
        os::write(guard.report_to(), NAMES.as_bytes());
    }
}
