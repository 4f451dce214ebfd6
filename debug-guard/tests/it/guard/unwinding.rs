//! Reports that unwind.

use super::*;

/// A report that unwinds leaves the books right: the block is freed and counted, whoever asked gets none that nobody
/// has.
#[test]
fn a_report_that_unwinds_leaves_the_books_right() {
    for mode in [Mode::Sampled, Mode::Cookie, Mode::Fence, Mode::Strict] {
        let sampling = Sampling::one_in(1).slots(4);
        let options = GuardOptions::new(mode).on_report(OnReport::Panic).sampling(sampling);
        let guard = guard(options.placement(Placement::Left).quarantine(8, 1 << 20).check_every(100));
        if guard.stats().back_end == BackEnd::Cookies && mode == Mode::Sampled {
            testkit::skip("mprotect", "a_report_that_unwinds_leaves_the_books_right", "no back end");
            continue;
        }
        let unwinds = |f: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err(), "{mode}");
        for _ in 0..6 {
            let block = take(&guard, 32);
            unwinds(&|| give(&guard, block, 48));
        }
        let block = take(&guard, 32);
        unwinds(&|| {
            assert_eq!(
                // SAFETY: a live block of this guard, with another layout than it has.
                unsafe { guard.resize(block, bytes(31), bytes(100), Scope::Object) },
                Ok(block)
            )
        });
        if mode == Mode::Cookie || mode == Mode::Fence {
            // A late write is found when its block leaves quarantine, in the middle of another's free or request.
            let late = take(&guard, 40);
            give(&guard, late, 40);
            // SAFETY: broken on purpose: the block waits in quarantine and belongs to the guard.
            unsafe { late.write(7) };
            let mut unwound = 0;
            for _ in 0..200 {
                let taken = catch_unwind(AssertUnwindSafe(|| take(&guard, 40)));
                unwound += usize::from(taken.is_err());
                if let Ok(block) = taken {
                    unwound += usize::from(catch_unwind(AssertUnwindSafe(|| give(&guard, block, 40))).is_err());
                }
            }
            assert_eq!(unwound, 1, "{mode}");
        }
        let before = guard.stats();
        let mut listed = 0;
        guard.live(&mut |_| listed += 1);
        assert_eq!((before.live_blocks, before.live_bytes, listed), (0, 0, 0), "{mode} {before}");
        let block = take(&guard, 32);
        assert_eq!(
            guard.stats().live_guarded,
            u64::from(mode != Mode::Cookie && before.back_end != BackEnd::Cookies),
            "{mode}"
        );
        give(&guard, block, 32);
        guard.close().expect("nothing is live");
    }
}

/// What is found together is put right together: what an unwinding report keeps from being told is counted.
#[test]
fn a_report_that_unwinds_counts_the_others_as_lost() {
    for mode in MODES {
        let options = GuardOptions::new(mode).on_report(OnReport::Panic).json(false).stacks(Stacks::Off);
        let guard = guard(options.placement(Placement::Left));
        let damaged = || {
            let block = take(&guard, 41);
            // SAFETY: broken on purpose: behind the block, and the guard's own.
            unsafe { block.as_ptr().wrapping_add(41).write(0) };
            block
        };
        let counts = || (guard.stats().reports, guard.stats().lost, guard.stats().live_blocks);
        let block = damaged();
        let unwound =
            catch_unwind(AssertUnwindSafe(|| give(&guard, block, 48))).expect_err("a mismatch, and an overflow");
        assert_eq!(
            unwound.downcast_ref::<String>().map(String::as_str),
            Some("debug-guard: size-mismatch: the report is above")
        );
        assert_eq!(counts(), (1, 1, 0), "{mode}: of a free");
        if mode == Mode::Cookie {
            let blocks = [damaged(), damaged(), damaged()];
            for told in 0..3 {
                catch_unwind(AssertUnwindSafe(|| guard.check_all())).expect_err("an overflow");
                assert_eq!(counts(), (2 + told, 1, 3), "each block by itself");
            }
            assert_eq!(guard.check_all(), 0, "all are put right");
            blocks.into_iter().for_each(|block| give(&guard, block, 41));
        }
    }
}
