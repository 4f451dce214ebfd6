//! Reports, each of whose functions is asked where it is made: in a free, in a check.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use debug_guard::{Actor, BackEnd, BlockInfo, Mode, Report};
use testkit::{MemoryUse, Sink, Stage};

use super::{GuardOperation, give, guard, take};

static LOOKED: AtomicUsize = AtomicUsize::new(0);

/// Asks a report everything.
pub(super) fn look(report: &Report<'_>) {
    let mut sink = Sink::default();
    write!(sink, "{report}").expect("the sink takes all");
    report.write_json(&mut sink).expect("the sink takes all");
    let place = report.place.map(|place| (place.name(), place.bytes()));
    let changed =
        report.changed.as_ref().map(|changed| (changed.first, changed.span, changed.expected(), changed.actual()));
    let numbers = (report.address, report.process, report.age(&report.by), report.neighbour_distance, place, changed);
    let names =
        (report.kind.name(), report.detected_at.name(), report.access.map(|access| access.name()), report.mapping);
    let guards = (report.guard, report.right_guard, report.back_end.name(), report.mode.map(|mode| mode.name()));
    let blocks = [&report.block, &report.neighbour].map(|block| block.as_ref().map(look_at_block));
    let by = look_at_deed(report.by);
    let text = Sink::debug((numbers, names, guards, blocks, by, report.free_args));
    assert!(text > 100 && sink.bytes > 100);
    LOOKED.fetch_add(1, SeqCst);
}

fn look_at_block(block: &BlockInfo<'_>) -> usize {
    let known = (block.address, block.size, block.align, block.scope, block.state, block.mode);
    let place = block.place_of(block.address);
    Sink::debug((known, place)) + look_at_deed(block.allocated) + block.freed.map_or(0, look_at_deed)
}

fn look_at_deed(deed: Actor<'_>) -> usize {
    let who = (deed.thread, deed.serial, deed.context, deed.owner, deed.label);
    Sink::debug((who, deed.command, deed.command_serial, deed.stack.frames.len()))
}

pub(super) fn table<S: Stage>() -> Vec<GuardOperation<S>> {
    vec![GuardOperation {
        names: &[
            "Access::name",
            "BlockInfo::place_of",
            "Changed::actual",
            "Changed::expected",
            "Mode::name",
            "DetectedAt::name",
            "AddressPosition::bytes",
            "AddressPosition::name",
            "Report::age",
            "Report::write_json",
            "ReportKind::name",
        ],
        how: "of a changed byte, a second free and an access that was stopped",
        takes: |_| MemoryUse::Nothing("reports are made of what is there"),
        body: |stage, mode| {
            // What passes untouched is nobody's to report, and Sampled may choose or not.
            let mode = mode.max(Mode::Cookie);
            let guard = guard(stage, mode);
            let (block, other) = (take(&guard, 17), take(&guard, 40));
            // Where there are pages, one begins at the next multiple of the alignment.
            let is_fenced = guard.stats().back_end != BackEnd::Cookies;
            let before = LOOKED.load(SeqCst);
            stage.attempt_plainly(|| {
                // SAFETY: broken on purpose: 17 bytes with alignment 8 leave seven bytes before the next multiple, the
                // guard's own.
                unsafe { block.as_ptr().wrapping_add(17).write(0) };
                assert_eq!(guard.check_all(), 1, "{mode}");
                give(&guard, other, 40);
                give(&guard, other, 40);
                assert_eq!(guard.usable_size(other), None);
                if is_fenced {
                    // SAFETY: broken on purpose: the guard stops it, reports it from the signal handler, and lets it
                    // land.
                    unsafe { block.as_ptr().wrapping_add(24).write_volatile(0) };
                }
            });
            let (stats, reports) = (guard.stats(), 3 + u64::from(is_fenced));
            assert_eq!((stats.reports, stats.lost), (reports, 0), "{mode}: a change, a free, a question, an access");
            assert!(LOOKED.load(SeqCst) as u64 >= before as u64 + reports, "{mode}: and each was looked at");
            give(&guard, block, 17);
        },
    }]
}
