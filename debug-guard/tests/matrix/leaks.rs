//! T34: what was never given back.

use crate::common::{Lab, On, SeenByChild, each, each_with, note, note_pointer};

#[test]
fn t34_one_leak_a_cycle_and_none() {
    fn one(lab: &Lab) {
        let kept = lab.take(100, 8);
        let from = lab.guard.mark();
        let freed = lab.take(64, 16);
        note_pointer("block", forgets(lab));
        lab.give(freed, 64, 16);
        let to = lab.guard.mark();
        let later = lab.take(32, 8);
        note_leaks(lab, from, to);
        lab.give(later, 32, 8);
        lab.give(kept, 100, 8);
    }
    #[inline(never)]
    fn forgets(lab: &Lab) -> *mut u8 {
        lab.take(72, 8)
    }
    each(On::ALL, one, |seen| {
        seen.quiet(4);
        // What was live before and what came after are none of it.
        assert_eq!((seen.note("leaks"), seen.note("blocks"), seen.note("bytes")), (1, 1, 72), "{}", seen.config.name());
        assert!(seen.stack_names("leak").iter().any(|name| name.contains("forgets")), "{}", seen.finished);
    });

    // Two blocks that point at one another are reachable from each other and from nowhere else: a leak of two.
    fn cycle(lab: &Lab) {
        let from = lab.guard.mark();
        let (a, b) = (lab.take(16, 8).cast::<usize>(), lab.take(16, 8).cast::<usize>());
        // SAFETY: live blocks of ours, large enough.
        unsafe { a.write(b.addr()) };
        // SAFETY: a live block of ours, large enough.
        unsafe { b.write(a.addr()) };
        note_leaks(lab, from, lab.guard.mark());
    }
    each(On::ALL, cycle, |seen| {
        seen.quiet(2);
        assert_eq!((seen.note("blocks"), seen.note("bytes")), (2, 32), "{}", seen.config.name());
    });

    fn none(lab: &Lab) {
        let from = lab.guard.mark();
        for size in 1..200 {
            lab.give(lab.take(size, 1), size, 1);
        }
        note_leaks(lab, from, lab.guard.mark());
    }
    each(On::ALL, none, |seen| {
        seen.quiet(199);
        assert_eq!((seen.note("leaks"), seen.note("blocks"), seen.note("bytes")), (0, 0, 0), "{}", seen.config.name());
    });
}

fn note_leaks(lab: &Lab, from: debug_guard::LeakMark, to: debug_guard::LeakMark) {
    let (mut leaks, mut blocks, mut bytes) = (0, 0, 0);
    lab.guard.leaks(from, to, &mut |leak| {
        leaks += 1;
        blocks += leak.blocks as usize;
        bytes += leak.bytes as usize;
        for (i, frame) in leak.block.allocated.stack.frames.iter().enumerate() {
            note(&format!("leak{i}"), *frame);
        }
    });
    note("leaks", leaks);
    note("blocks", blocks);
    note("bytes", bytes);
}

/// C's own end: Rust's passes over what the C runtime of Windows has to run.
fn ends() -> ! {
    // SAFETY: no other thread does so, too.
    unsafe { libc::exit(0) }
}

#[test]
fn t34_leaks_at_exit_give_the_exit_code() {
    const CODE: i32 = 23;
    fn leaks(lab: &Lab) {
        lab.take(72, 8);
        lab.take(24, 8);
        note("leaving", 1);
        ends();
    }
    each_with(
        On::ALL,
        |options| options.exit_leaks(CODE),
        leaks,
        |seen: &SeenByChild| {
            seen.note("leaving");
            seen.finished.assert_code(CODE);
            // Two places in the program, a block each.
            assert_eq!(seen.leaked(), [(1, 24), (1, 72)], "{}", seen.finished);
            seen.leaks.iter().for_each(|leak| {
                leak.taken_in_case();
            });
            assert!(seen.reports.is_empty(), "{}", seen.finished);
        },
    );

    fn leaks_nothing(lab: &Lab) {
        lab.give(lab.take(72, 8), 72, 8);
        note("leaving", 1);
        ends();
    }
    each_with(
        On::ALL,
        |options| options.exit_leaks(CODE),
        leaks_nothing,
        |seen| {
            seen.note("leaving");
            seen.finished.assert_code(0);
            assert!(seen.leaks.is_empty() && seen.reports.is_empty(), "{}", seen.finished);
        },
    );
}
