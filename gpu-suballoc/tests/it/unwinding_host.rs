//! A host allocator that unwinds breaks its contract. What happens then all the same: nothing is half done, and at most
//! one block of host memory is lost for each call that unwound, the one that was allocated last before it.

use testkit::{Call, HookedAllocator, Moment, Request, with_hook};

use crate::*;

type Host = HookedAllocator<RecordingAllocator>;

fn host() -> Host {
    HookedAllocator::new(RecordingAllocator::system())
}

/// Runs it, and unwinds at the n-th request, counted from 0: what came of it, and whether there were so many.
fn unwinding<R>(nth: u64, body: impl FnOnce() -> R) -> (thread::Result<R>, bool) {
    let left = Cell::new(Some(nth));
    let hook = |request: Request| {
        if request.moment == Moment::Before && request.call != Call::Deallocate {
            let now = left.take();
            if now == Some(0) {
                // Quietly: no hook is run.
                resume_unwind(Box::new("planted"));
            }
            left.set(now.map(|now| now - 1));
        }
    };
    let ran = with_hook(1, &hook, || catch_unwind(AssertUnwindSafe(body)));
    (ran, left.get().is_none())
}

type Gpu<'m> = GpuAllocator<&'m MockDevice, Host>;

const COPIED: BufferUsage = BufferUsage::TRANSFER_SRC;

/// A region of each kind; `None` where it was not made.
fn make(gpu: &Gpu<'_>, kind: usize, foreign: BufferHandle) -> Option<Region> {
    let needs = ResourceRequirements::new(1000, 16);
    let plain = RegionOptions::new();
    let visible = plain.preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE));
    match kind {
        0 => gpu.allocate(&needs, &plain).ok(),
        1 => gpu.allocate(&needs, &plain.name("named")).ok(),
        2 => gpu.allocate(&needs, &plain.dedicated(Required)).ok(),
        3 => gpu.create_buffer(&BufferInfo::new(1000, COPIED), &visible.name("buffer")).ok(),
        4 => gpu.wrap(&WrapInfo::new(foreign, 1000)).ok(),
        5 => {
            let region = gpu.allocate(&needs, &visible).ok()?;
            // Mapping gives a bare region its record.
            let mapped = catch_unwind(AssertUnwindSafe(|| drop(gpu.map(&region))));
            if mapped.is_err() {
                gpu.free(region).expect("a mapping that unwound leaves the region free to go");
                resume_unwind(Box::new("planted"));
            }
            Some(region)
        }
        6 => gpu.allocate(&needs, &plain.lifetime(Transient)).ok(),
        7 => gpu.allocate(&needs, &plain.lifetime(Persistent)).ok(),
        _ => {
            let pool = gpu
                .create_pool(&PoolOptions {
                    algorithm: [General, Stack][kind % 2],
                    block_size: Some(1 << 16),
                    ..PoolOptions::new(0)
                })
                .ok()?;
            gpu.allocate(&needs, &plain.pool(pool)).ok()
        }
    }
}

const KINDS: usize = 10;

#[test]
fn ge11_a_host_allocator_that_unwinds_loses_one_block_at_most_and_breaks_nothing() {
    let (mut unwound, mut lost, mut total) = (0u32, 0u32, 0u32);
    for kind in 0..KINDS {
        for nth in 0.. {
            let mock = MockDevice::new(Nvidia);
            // SAFETY: a mock, and a valid info.
            let foreign = unsafe { mock.create_buffer(&BufferInfo::new(1000, COPIED)) }.unwrap();
            let host = host();
            // SAFETY: a mock, on which nothing runs.
            let gpu = over(&mock, host.clone());
            let (first, came) = unwinding(nth, || make(&gpu, kind, foreign));
            // The same again, and everything else: nothing is in its way.
            let kept = first.ok().flatten();
            let again: Vec<Region> =
                (0..KINDS).map(|kind| make(&gpu, kind, foreign).expect("it does not unwind any more")).collect();
            for region in again.into_iter().chain(kept) {
                gpu.free(region).unwrap();
            }
            let outstanding = gpu.close().map_err(|refused| refused.error).err();
            assert_eq!(outstanding, None, "kind {kind}, request {nth}, unwound: {came}");
            let left = host.inner().total().live_blocks;
            assert!(left <= u64::from(came), "{left} blocks are lost by kind {kind}, request {nth}");
            mock.assert_ended();
            // SAFETY: nobody uses it.
            unsafe { mock.destroy_buffer(foreign) };
            if !came {
                break;
            }
            unwound += 1;
            lost += u32::from(left > 0);
        }
        total += 1;
    }
    assert!(unwound > 20 && total == KINDS as u32, "{unwound}");
    println!("{unwound} requests unwound, {lost} lost a block");
}

#[test]
fn ge11_a_virtual_block_loses_one_block_at_most() {
    for algorithm in [General, Ring] {
        for nth in 0.. {
            let host = host();
            let mut block = VirtualBlock::with_algorithm(host.clone(), 1 << 20, 256, algorithm).unwrap();
            let (tried, came) = unwinding(nth, || (0..200).try_for_each(|_| block.allocate(256, 1).map(|_| ())));
            assert_eq!(tried.is_err(), came);
            let live = block.statistics().allocation_count;
            block.allocate(256, 1).expect("it goes on");
            assert_eq!(block.statistics().allocation_count, live + 1);
            drop(block);
            assert!(host.inner().total().live_blocks <= u64::from(came));
            if !came {
                assert!(nth > 1, "{nth}");
                break;
            }
        }
    }
}

#[test]
fn ge11_a_virtual_block_asks_for_no_more_after_a_reservation_that_unwound() {
    for algorithm in [General, Stack, Ring] {
        let host = host();
        let mut block = VirtualBlock::with_algorithm(host.clone(), 1 << 20, 256, algorithm).unwrap();
        let (reserved, _) = unwinding(0, || block.reserve(1 << 20));
        assert!(reserved.is_err());
        block.allocate(256, 1).unwrap();
        let bytes = host.inner().total().live_bytes;
        assert!(bytes < 16 << 10, "{algorithm:?}: {bytes}");
    }
}

const PIECE: u64 = 64 << 10;

/// Every pass, with second buffers; a refusal ends it.
fn defragment(gpu: &Gpu<'_>) -> Option<()> {
    let mut run = gpu.defragment(DefragmentationOptions::new()).ok()?;
    loop {
        let mut pass = run.next_pass().ok()?;
        if pass.is_empty() {
            return Some(());
        }
        for index in 0..pass.moves().len() {
            pass.make_buffer(index).ok()?;
        }
        pass.set_outcomes(MoveOutcome::Copied);
        pass.finish(|_, result| assert_eq!(result, MoveResult::Moved));
    }
}

#[test]
fn ge11_a_host_allocator_that_unwinds_in_a_defragmentation_leaves_every_region_where_its_record_says() {
    let memory =
        MemoryOptions { first_block: Some(16 * PIECE), max_block: Some(16 * PIECE), ..MemoryOptions::default() };
    let options = AllocatorOptions { memory, ..AllocatorOptions::default() };
    let shared = RegionOptions::new().dedicated(Never);
    let info = BufferInfo::new(PIECE, COPIED | BufferUsage::TRANSFER_DST);
    for nth in 0.. {
        let mock = MockDevice::new(Nvidia);
        let host = host();
        let gpu = over_with(&mock, host.clone(), options);
        let all = times(48, || gpu.create_buffer(&info, &shared).unwrap());
        let mut left = Vec::new();
        for (number, region) in all.into_iter().enumerate() {
            if number % 4 == 0 {
                left.push(region);
            } else {
                gpu.free(region).unwrap();
            }
        }
        let (ran, came) = unwinding(nth, || defragment(&gpu));
        assert_eq!(ran.is_err(), came);
        let lie_where_they_should = || {
            for region in &left {
                let info = gpu.info(region.id()).unwrap();
                let said = info.memory.map(|memory| (memory, info.offset));
                assert_eq!(mock.buffer_bound(info.buffer.unwrap()), said);
            }
        };
        lie_where_they_should();
        assert_eq!(gpu.stats().total.moving, 0, "request {nth}");
        // The next one finds nothing in its way.
        defragment(&gpu).expect("it does not unwind any more");
        lie_where_they_should();
        assert_eq!(gpu.stats().total.blocks, 1, "request {nth}");
        for region in left {
            gpu.free(region).unwrap();
        }
        assert!(gpu.close().is_ok(), "request {nth}");
        assert!(host.inner().total().live_blocks <= u64::from(came));
        assert!(mock.violations().is_empty(), "{}", mock.violations());
        if !came {
            assert!(nth > 5, "{nth}");
            break;
        }
    }
}
