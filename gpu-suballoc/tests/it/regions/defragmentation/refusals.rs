//! Each request of host memory and each command of the device is refused once.

use super::*;

type Failing = FailingAllocator<RecordingAllocator>;

/// Passes until one is empty; what is refused is tried again. How many errors there were.
fn persevere<D: DeviceMemory, A: HostAllocator>(
    gpu: &GpuAllocator<D, A>,
    mock: &Mock,
) -> (u32, DefragmentationTotals) {
    let mut errors = 0;
    let mut run = loop {
        // Bare ones too: they get a record on the way.
        match gpu.defragment(DefragmentationOptions::new().move_bare_regions()) {
            Ok(run) => break run,
            Err(_) => errors += 1,
        }
        assert!(errors < 100);
    };
    loop {
        let Ok(mut pass) = run.next_pass() else {
            errors += 1;
            assert!(errors < 100);
            continue;
        };
        if pass.is_empty() {
            break;
        }
        for index in 0..pass.moves().len() {
            if let Some(old) = pass.moves()[index].old_buffer() {
                let Ok(new) = pass.make_buffer(index) else {
                    errors += 1;
                    continue;
                };
                let size = pass.moves()[index].size();
                assert!(mock.copy_buffer(old, 0, new, 0, size));
            }
            pass.set_outcome(index, MoveOutcome::Copied).unwrap();
        }
        pass.finish(|_, _| ());
    }
    let totals = run.totals();
    (errors, totals)
}

/// Half of four blocks' pieces, some of them bare; `nth` host request or device command is refused while it is defragmented.
fn refused(
    host_request: Option<u64>,
    device: Option<MockFault>,
) -> (u32, DefragmentationTotals, bool) {
    let mock = Mock::new(MockProfile::Nvidia, RecordingAllocator::system());
    let host = Failing::new(RecordingAllocator::system(), Fault::Never);
    let result = {
        let gpu = over_with(&mock, &host, small_blocks());
        let needs = ResourceRequirements::new(PIECE, 256);
        let info = BufferInfo::new(PIECE, COPIED);
        let all: Vec<Region> = (0..64)
            .map(|index| {
                if index % 8 == 0 {
                    gpu.allocate(&needs, &shared()).unwrap()
                } else {
                    let region = gpu.create_buffer(&info, &shared()).unwrap();
                    let buffer = region.buffer().unwrap();
                    assert!(mock.fill_buffer(buffer, 0, PIECE, index));
                    region
                }
            })
            .collect();
        let (left, freed): (Vec<_>, Vec<_>) = (0..).zip(all).partition(|(index, _)| index % 4 == 0);
        freed
            .into_iter()
            .for_each(|(_, region)| gpu.free(region).unwrap());
        host.arm(host_request.map_or(Fault::Never, Fault::Nth));
        if let Some(fault) = device {
            assert!(mock.plant(fault));
        }
        let (errors, totals) = persevere(&gpu, &mock);
        let was_met = host_request.is_none_or(|_| host.refused() > 0);
        host.arm(Fault::Never);
        mock.clear_faults();
        assert_eq!(gpu.stats().total.regions, 16);
        assert_eq!(gpu.stats().total.moving, 0);
        // Nothing is lost: what was left over goes another time.
        let (_, rest) = persevere(&gpu, &mock);
        assert_eq!(gpu.stats().total.blocks, 2, "{totals:?} {rest:?}");
        for (index, mut region) in left {
            gpu.refresh(&mut region).unwrap();
            if let Some(buffer) = region.buffer() {
                let mut bytes = vec![0; PIECE as usize];
                assert!(mock.read_buffer(buffer, 0, &mut bytes));
                assert_eq!(bytes, vec![index; PIECE as usize]);
            }
            gpu.free(region).unwrap();
        }
        gpu.close().unwrap();
        (errors, totals, was_met)
    };
    assert!(mock.violations().is_empty(), "{}", mock.violations());
    assert_eq!(mock.live_counts(), mock_device::MockLiveCounts::default());
    host.inner().assert_empty("defragmentation");
    result
}

#[test]
fn df7_each_host_request_refused_means_fewer_moves_or_an_error_and_nothing_lost() {
    let (none, plain, _) = refused(None, None);
    assert_eq!((none, plain.moves, plain.freed_blocks), (0, 8, 2));
    let (mut errors, mut nth) = (0, 0);
    loop {
        let (failed, _, was_met) = refused(Some(nth), None);
        errors += failed;
        nth += 1;
        if !was_met {
            break;
        }
    }
    println!("{nth} requests, {errors} errors");
    assert!(nth > 4 && errors >= 4);
}

#[test]
fn df7_each_device_command_refused_leaves_the_region_where_it_is() {
    for call in [MockCall::CreateBuffer, MockCall::BindBuffer] {
        for nth in [0, 2] {
            let (errors, totals, _) = refused(None, Some(MockFault::nth(nth + 1).of(call)));
            assert_eq!(errors, 1, "{call:?} {nth}");
            assert_eq!((totals.moves, totals.freed_blocks), (7, 1), "{totals:?}");
        }
    }
}

/// No pool of that name, and one that somebody is at: kept buffers stay.
#[test]
fn df4_a_defragmentation_that_is_refused_gives_nothing_up() {
    let options = AllocatorOptions {
        reuse: true,
        max_reusable_buffers: 4,
        ..small_blocks()
    };
    scene(MockProfile::Nvidia, options, |scene| {
        let gone = scene.pool(0);
        scene.gpu.destroy_pool(gone).unwrap();
        let two = PoolOptions {
            min_blocks: 2,
            block_size: Some(MIB),
            ..PoolOptions::new(0)
        };
        let busy = scene.gpu.create_pool(&two).unwrap();
        let run = scene
            .gpu
            .defragment(DefragmentationOptions::new().pool(busy));
        let run = run.expect("nobody is at it");
        let region = scene.piece(1, &shared());
        scene.gpu.release(region).unwrap();
        assert_eq!(scene.mock.live_counts().buffers, 1);
        let every = DefragmentationOptions::new();
        for (options, rule) in [
            (every.pool(gone), GpuMisuse::NoSuchPool),
            (every.pool(busy), GpuMisuse::Defragmenting),
            (every, GpuMisuse::Defragmenting),
        ] {
            let refused = scene.gpu.defragment(options).map(drop);
            assert_eq!(refused, Err(rule.into()));
            assert_eq!(scene.mock.live_counts().buffers, 1, "as it was");
        }
        drop(run);
        scene.gpu.defragment(every).map(drop).expect("nobody is");
        assert_eq!(scene.mock.live_counts().buffers, 0, "in the way");
        scene.gpu.destroy_pool(busy).unwrap();
    });
}
