//! Margins that are looked at while a region comes or goes.

use super::*;

/// On a device whose memory is not coherent.
fn with_margins() -> &'static Scene {
    let memory = MemoryOptions { margin: 16, first_block: Some(1 << 20), ..MemoryOptions::default() };
    let options = AllocatorOptions { memory, ..AllocatorOptions::default() };
    Scene::with(Tiler, options)
}

/// A region whose margin is being read is freed, and another one is written where the margin was: that is not its
/// damage.
#[test]
fn a_region_that_is_freed_while_its_margin_is_read_is_not_reported() {
    const SIZE: u64 = 1 << 16;
    ends(|| {
        let scene = with_margins();
        let gpu: &Gpu = scene;
        let region = gpu.allocate(&needs(SIZE), &visible()).unwrap();
        let (id, offset) = (region.id(), region.offset());
        let later: &'static Mutex<Option<Region>> = Box::leak(Box::default());
        scene.on(Invalidate, move |scene| {
            if scene.free_id(id).is_ok() {
                let larger = scene.allocate(&needs(2 * SIZE), &visible());
                let larger = larger.unwrap();
                assert_eq!(larger.offset(), offset, "where the other one was");
                let mapping = scene.map(&larger).unwrap();
                // SAFETY: mapped, and as long as that.
                unsafe { mapping.as_ptr().write_bytes(7, mapping.len()) };
                // What is not flushed would be discarded now.
                scene.flush(&larger, 0, 2 * SIZE).unwrap();
                drop(mapping);
                *later.lock().unwrap() = Some(larger);
            }
        });
        gpu.check_corruption(|margin| panic!("{:?} is gone", margin.id)).expect("it can be read");
        scene.mock.set_hook(None);
        let larger = later.lock().unwrap().take().expect("the margin was read");
        assert_eq!(gpu.check_corruption(|_| panic!("all is well")), Ok(1));
        gpu.free(larger).expect("given back");
        scene.end();
    });
}

/// A region can be found before its margin is written: what is looked at from within an allocation is not reported, and
/// is afterwards.
#[test]
fn a_look_at_margins_from_within_an_allocation_reports_none_that_is_to_be_written() {
    const SIZE: u64 = 1 << 16;
    type Allocate = fn(&Gpu) -> Vec<Region>;
    let one: Allocate = |gpu| vec![gpu.allocate(&needs(SIZE), &visible()).unwrap()];
    let batch: Allocate = |gpu| {
        let mut regions = [const { None }; 4];
        gpu.allocate_batch(&needs(SIZE), &visible(), &mut regions).unwrap();
        regions.into_iter().flatten().collect()
    };
    for (call, allocate) in [(Allocate, one), (Allocate, batch), (Flush, one), (Flush, batch)] {
        ends(move || {
            let scene = with_margins();
            let gpu: &Gpu = scene;
            let mut regions = allocate(gpu);
            let damaged = regions.first().unwrap();
            let mapping = gpu.map(damaged).unwrap();
            let margin = mapping.as_ptr().wrapping_add(damaged.size() as usize);
            // SAFETY: the margin of 16 bytes lies behind the region, in memory that is mapped as a whole.
            unsafe { margin.write(7) };
            drop(mapping);
            let damaged = damaged.id();
            let looked = || {
                let mut found = Vec::new();
                let seen = gpu.check_corruption(|margin| found.push(margin.id));
                seen.map(|_| found)
            };
            assert_eq!(looked(), Ok(vec![damaged]));
            let seen: &'static Mutex<Vec<_>> = Box::leak(Box::default());
            scene.on(call, move |scene| {
                let found = |margin: &CorruptedMargin<'_>| seen.lock().unwrap().push(margin.id);
                let _ = scene.check_corruption(found);
            });
            while scene.entered.load(SeqCst) == 0 {
                regions.extend(allocate(gpu));
            }
            assert_eq!(*seen.lock().unwrap(), []);
            scene.mock.set_hook(None);
            assert_eq!(looked(), Ok(vec![damaged]));
            let refused = gpu.free_id(damaged);
            assert_eq!(refused, Err(MarginOverwritten.into()));
            for region in regions {
                gpu.free(region).expect("given back");
            }
            scene.end();
        });
    }
}

/// What a device is asked of a margin discards what is not flushed there. Where the region is freed meanwhile, whoever
/// gets the place on another thread waits, and loses nothing of what it writes.
#[test]
fn what_is_placed_where_a_margin_is_being_asked_for_loses_nothing() {
    const SIZE: u64 = 1 << 16;
    const ASKED: u32 = 1;
    const WRITTEN: u32 = 2;
    const ANSWERED: u32 = 3;
    ends(|| {
        let scene = with_margins();
        let gpu: &Gpu = scene;
        let region = gpu.allocate(&needs(SIZE), &visible()).unwrap();
        let offset = region.offset();
        let phase: &'static AtomicU32 = Box::leak(Box::default());
        let step = move |from, to| phase.compare_exchange(from, to, SeqCst, SeqCst).is_ok();
        let wait = move |wanted: u32, time: Duration| {
            let begun = Instant::now();
            while phase.load(SeqCst) != wanted && begun.elapsed() < time {
                thread::yield_now();
            }
        };
        scene.mock.set_hook(Some(Box::leak(Box::new(move |called| {
            if called == Invalidate && step(0, ASKED) {
                wait(WRITTEN, Duration::from_millis(300));
            }
        }))));
        let other = thread::spawn(move || {
            wait(ASKED, Duration::from_secs(10));
            gpu.free(region).expect("nobody else has it");
            let larger = gpu.allocate(&needs(2 * SIZE), &visible()).unwrap();
            assert_eq!(larger.offset(), offset, "where the other one was");
            let mapping = gpu.map(&larger).unwrap();
            // SAFETY: mapped, and as long as that.
            unsafe { mapping.as_ptr().write_bytes(7, mapping.len()) };
            step(ASKED, WRITTEN);
            wait(ANSWERED, Duration::from_secs(10));
            // SAFETY: mapped, and as long as that; this thread alone has it.
            let bytes = unsafe { std::slice::from_raw_parts(mapping.as_ptr(), mapping.len()) };
            assert!(bytes.iter().all(|byte| *byte == 7), "some were discarded");
            drop(mapping);
            gpu.free(larger).expect("given back");
        });
        gpu.check_corruption(|margin| panic!("{:?} is gone", margin.id)).expect("it can be read");
        assert_ne!(phase.swap(ANSWERED, SeqCst), 0, "the device was asked");
        other.join().expect("it ends well");
        scene.entered.fetch_add(1, SeqCst);
        scene.end();
    });
}
