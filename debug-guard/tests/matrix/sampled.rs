//! T01 and T15 by chance: what Sampled promises is a share.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use alloc_core::FromGlobalAlloc;
use debug_guard::{BackEnds, Guard, Mode, OnReport, Placement, Report, ReportKind, Sampling};

use crate::common::{Config, Lab, each_of, gives, lent, loads, note, skip_what_is_not_offered, stores, takes};

const RUNS: usize = 1000;
const ONE_IN: u32 = 4;
/// By then the site is no longer new.
const BUSY: usize = 16;

static SEEN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn sees(report: &Report<'_>) {
    match report.kind {
        ReportKind::Overflow => SEEN[0].fetch_add(1, SeqCst),
        ReportKind::UseAfterFree => SEEN[1].fetch_add(1, SeqCst),
        kind => panic!("{kind:?}"),
    };
}

/// A thousand guards, each with a seed of its own. One in four are to be seen: 250, and by chance alone less than once
/// in a million times not within five standard deviations of that, which are 69.
#[test]
fn t01_t15_of_a_busy_site_a_share_is_seen() {
    fn overflows(lab: &Lab) {
        busily(lab, |guard, block| {
            // The C library's blocks of 64 bytes have 8 more that nobody uses.
            stores(block.wrapping_add(64), 0x41);
            gives(guard, block, 64, 16);
        });
    }
    fn reads(lab: &Lab) {
        busily(lab, |guard, block| {
            gives(guard, block, 64, 16);
            loads(block);
        });
    }
    fn busily(lab: &Lab, mistake: impl Fn(&crate::common::Under, *mut u8)) {
        let sampling = Sampling::one_in(ONE_IN).first(1).slots(32);
        let options = Lab::options(lab.config).sampling(sampling).on_report(OnReport::Call(sees));
        let mut chosen = 0;
        for _ in 0..RUNS {
            let guard = Guard::new(FromGlobalAlloc::SYSTEM, options).expect("a guard");
            for _ in 1..BUSY {
                let block = takes(&guard, 64, 16);
                gives(&guard, block, 64, 16);
            }
            let before = guard.stats().guarded;
            mistake(&guard, takes(&guard, 64, 16));
            chosen += (guard.stats().guarded - before) as usize;
            guard.close().expect("nothing is live");
        }
        note("chosen", chosen);
        note("overflows", SEEN[0].load(SeqCst));
        note("late", SEEN[1].load(SeqCst));
    }

    skip_what_is_not_offered("t01_t15 sampled");
    let offered = lent().filter(|back_end| BackEnds::probe().offers(*back_end));
    let configs: Vec<_> = offered
        .map(|back_end| Config { mode: Mode::Sampled, placement: Placement::Right, back_end: Some(back_end) })
        .collect();
    each_of(configs.clone(), |options| options, overflows, |seen| is_a_share(seen, "overflows"));
    each_of(configs, |options| options, reads, |seen| is_a_share(seen, "late"));
}

fn is_a_share(seen: &crate::common::SeenByChild, kind: &str) {
    seen.ended();
    let (found, chosen) = (seen.note(kind), seen.note("chosen"));
    println!("{} {kind}: {found} of {RUNS} seen", seen.config.name());
    assert_eq!(seen.note("overflows") + seen.note("late"), found, "of no other kind");
    assert_eq!(found, chosen, "every chosen block is seen");
    assert!((250 - 69..=250 + 69).contains(&found), "{found}");
}
