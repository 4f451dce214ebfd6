//! Filters and reports that unwind: every region lies where its record says, with its contents, and what was reserved
//! is free again.

use super::*;

/// Unwinds at the call `at` of all that share `calls`.
fn step(calls: &AtomicU32, at: u32) {
    let call = calls.fetch_add(1, Relaxed);
    if call == at {
        // Quietly: no hook is run.
        resume_unwind(Box::new("planted"));
    }
}

/// Every buffer is bound where the allocator says that its region lies, in memory that is live.
fn all_lie_where_they_are_said_to(scene: &Scene<'_>, left: &[(u8, Region)]) {
    for (_, region) in left {
        let info = scene.must_info(region.id());
        let said = info.memory.map(|memory| (memory, info.offset));
        let bound = scene.mock.buffer_bound(info.buffer.unwrap());
        assert_eq!(bound, said);
        assert!(scene.mock.memory(info.memory.unwrap()).is_some());
    }
}

/// A defragmentation that goes on after each of its calls that unwound. Returns how many did.
fn persevere(scene: &Scene<'_>, filter_at: u32, report_at: u32) -> u32 {
    let (filtered, reported) = (AtomicU32::new(0), AtomicU32::new(0));
    let filter = |_, _| {
        step(&filtered, filter_at);
        true
    };
    let options = all_moves().filter(&filter).max_moves_per_pass(3);
    let mut unwound = 0;
    let mut run = loop {
        match catch_unwind(AssertUnwindSafe(|| scene.defragment(options))) {
            Ok(run) => break run.unwrap(),
            Err(_) => unwound += 1,
        }
    };
    loop {
        let pass = catch_unwind(AssertUnwindSafe(|| {
            let mut pass = run.next_pass().unwrap();
            if pass.is_empty() {
                return false;
            }
            copy(scene.mock, &mut pass);
            pass.finish(|_, result| {
                step(&reported, report_at);
                assert_eq!(result, MoveResult::Moved);
            });
            true
        }));
        match pass {
            Ok(true) => {}
            Ok(false) => break,
            Err(_) => unwound += 1,
        }
    }
    unwound
}

#[test]
fn df3_a_filter_or_a_report_that_unwinds_at_any_call_leaves_every_region_where_its_record_says() {
    for is_filter in [true, false] {
        let mut unwound = 0;
        for at in 0.. {
            let mut times = 0;
            small(|scene| {
                let mut left = scene.sparse(3, 4);
                let before = scene.total();
                let [filter_at, report_at] = if is_filter { [at, u32::MAX] } else { [u32::MAX, at] };
                times = persevere(&scene, filter_at, report_at);
                all_lie_where_they_are_said_to(&scene, &left);
                let total = scene.total();
                assert_eq!((total.moving, total.moving_bytes), (0, 0));
                assert_eq!((total.regions, total.region_bytes), (before.regions, before.region_bytes));
                scene.check(&mut left);
                // The next one finds nothing in its way.
                let (_, totals) = defragment(&scene, all_moves());
                assert_eq!(scene.total().blocks, 1, "{totals:?}");
                scene.check_and_free(left);
            });
            if times == 0 {
                break;
            }
            unwound += times;
        }
        assert!(unwound >= if is_filter { 16 } else { 8 }, "{unwound}");
    }
}
