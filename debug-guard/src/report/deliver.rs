use core::fmt::{self, Write};

use super::block_info::Stack;
use super::guard_report::{DetectedAt, Report, ReportContext};
use super::registry::{REGISTRY, ReportingGuard};
use super::scratch::{Out, Scratch, Unavailable, exclusively};
use super::text::Leak;
use crate::block::GuardFinding;
use crate::call_sites::walk_from;
use crate::modules;
use crate::os;
use crate::os::{Handled, Trap};
use crate::report_kind::ReportKind;

/// What happens with a report.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum OnReport {
    /// Written to the standard error, as text and, unless that is a terminal, as a line of JSON; then the process
    /// aborts.
    #[default]
    Abort,
    /// Written, then the thread panics. Reports of the signal handler abort: a signal cannot unwind.
    Panic,
    /// Written, and the program continues: a bad free frees nothing, a stopped access gets an accessible page.
    Log,
    /// Passed to a function and not written, then as [`Log`](Self::Log). It may be called in the signal handler: it may
    /// only do what signal-safety(7) allows, and must not allocate from the guard.
    Call(fn(&Report<'_>)),
}

const OWN_PAGES: &str = "the guard's own pages";

/// Reading debug information would allocate, which reports must not.
pub(super) use os::NAMES;

/// Returns for [`OnReport::Log`] and [`OnReport::Call`] only. Unwinds for [`OnReport::Panic`], so no lock may be
/// held.
pub(crate) fn deliver(guard: &dyn ReportingGuard, case: &ReportContext<'_>) {
    write(guard, case);
    match guard.on_report() {
        OnReport::Abort => os::abort(),
        OnReport::Panic if case.detected_at == DetectedAt::Instruction => {
            os::write(guard.report_to(), b"debug-guard: aborts, since nothing can unwind out of a signal handler\n");
            os::abort()
        }
        OnReport::Panic => unwind(case.finding.kind),
        OnReport::Log | OnReport::Call(_) => {}
    }
}

fn write(guard: &dyn ReportingGuard, case: &ReportContext<'_>) {
    let written = exclusively(|scratch| match case.finding.owner {
        None => write_with(guard, Some(guard), case, scratch),
        // The owner of the block has the call sites.
        Some(owner) => {
            let written = REGISTRY
                .query(|other| (other.number() == owner).then(|| write_with(guard, Some(other), case, scratch)));
            written.unwrap_or_else(|| write_with(guard, None, case, scratch));
        }
    });
    guard.reported(written.is_err());
    let lost: &[u8] = match written {
        Ok(()) => return,
        Err(Unavailable::Nested) => b"debug-guard: something else went wrong within a report, and is not told\n",
        Err(Unavailable::Busy) => b"debug-guard: another thread's report does not end; this one is not told\n",
    };
    os::write(guard.report_to(), lost);
}

fn write_with(
    guard: &dyn ReportingGuard,
    home: Option<&dyn ReportingGuard>,
    case: &ReportContext<'_>,
    scratch: &mut Scratch,
) {
    let Scratch { mapping, out } = scratch;
    let address = case.finding.address;
    let mapping = match case.finding.kind {
        // A reader must not take the pointer for another allocator's.
        ReportKind::ForeignFree if guard.covers(address) => OWN_PAGES,
        ReportKind::ForeignFree => os::mapping_at(address, mapping).map_or("", |mapping| mapping.name),
        _ => "",
    };
    let report = Report::new(guard, home, case, mapping);
    if let OnReport::Call(function) = guard.on_report() {
        return function(&report);
    }
    let mut out = Out::new(guard.report_to(), out);
    let _ = write!(out, "{report}");
    if guard.json() {
        let _ = report.write_json(&mut out);
        let _ = out.write_char('\n');
    }
}

#[expect(clippy::panic, reason = "that is what `OnReport::Panic` is for")]
fn unwind(kind: ReportKind) -> ! {
    core::panic!("debug-guard: {}: the report is above", kind.name())
}

pub(crate) fn notice(guard: &dyn ReportingGuard, text: fmt::Arguments<'_>) {
    write_line(guard.report_to(), format_args!("notice: guard {:?}: {text}", guard.name()));
}

pub(crate) fn write_line(descriptor: i32, text: fmt::Arguments<'_>) {
    let mut room = [0; 256];
    let _ = writeln!(Out::new(descriptor, &mut room), "debug-guard: {text}");
}

pub(crate) fn list(
    guard: &dyn ReportingGuard,
    headline: fmt::Arguments<'_>,
    leaks: impl FnOnce(&mut dyn FnMut(&Leak<'_>)),
) {
    notice(guard, headline);
    let mut has_frames = false;
    leaks(&mut |leak| {
        let stack = leak.stack();
        has_frames |= !stack.frames.is_empty();
        let _ = exclusively(|Scratch { out, .. }| {
            let mut out = Out::new(guard.report_to(), out);
            let _ = leak.write((guard.name(), guard.json()), &mut out);
        });
    });
    if has_frames {
        os::write(guard.report_to(), NAMES.as_bytes());
    }
}

const FRAMES: usize = 64;

/// Async-signal-safe.
pub(crate) fn on_trap(trap: &Trap) -> Handled {
    let covering = |guard: &dyn ReportingGuard| guard.covers(trap.address).then(|| stopped(guard, trap));
    REGISTRY.query(covering).unwrap_or(Handled::No)
}

fn stopped(guard: &dyn ReportingGuard, trap: &Trap) -> Handled {
    let stopped = guard.classify_access(trap.address);
    let mut frames = [0; FRAMES];
    let mark = guard.command().map_or(0, |command| command.stack);
    let (len, whole) = walk_from(trap.pc, trap.frame, trap.stack, mark, &mut frames);
    let finding = GuardFinding::new(stopped.kind, stopped.block, trap.address);
    let frames = frames.get(..len).unwrap_or_default();
    let stack = Stack { frames, whole, modules: modules::note(frames) };
    deliver(
        guard,
        &ReportContext {
            access: trap.access,
            other: stopped.other,
            stack,
            ..ReportContext::new(finding, DetectedAt::Instruction)
        },
    );
    if guard.land(trap.address) { Handled::Resume } else { Handled::No }
}
