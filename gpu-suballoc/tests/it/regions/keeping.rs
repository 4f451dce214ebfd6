//! Counts of users, and buffers that are kept for the next exact fit.

use super::*;

fn made(s: &Scene<'_>) -> (u64, u64) {
    (s.mock.calls(CreateBuffer), s.mock.calls(DestroyBuffer))
}

fn release(s: &Scene<'_>, region: Region) {
    s.release(region).unwrap();
}

#[test]
fn h89_a_kept_buffer_is_used_again_for_an_exact_fit_alone() {
    nvidia(|s| {
        let (first, other) = (s.buffer_with(1000, &any().name("first")), s.buffer(2000));
        let (id, buffer, place) = (first.id(), first.buffer(), (first.memory(), first.offset()));
        release(&s, first);
        release(&s, other);
        assert_eq!(made(&s), (2, 0), "both are kept");

        let close = [
            s.buffer(999),
            s.buffer(1001),
            s.must_create_buffer(&BufferInfo::new(1000, BufferUsage::STORAGE_BUFFER), &any()),
            s.buffer_with(1000, &any().device_address()),
            s.buffer_with(1000, &any().min_alignment(4096)),
        ];
        let elsewhere = s.visible_buffer(1000);
        assert_eq!(made(&s), (8, 0), "another size, usage or memory is no fit");

        let again = s.buffer_with(1000, &any().name("again"));
        assert_eq!((made(&s), s.must_info(again.id()).name()), ((8, 0), "again"));
        assert_eq!((again.buffer(), (again.memory(), again.offset()), again.size()), (buffer, place, 1000));
        assert_ne!(again.id(), id, "under another id");
        assert_eq!(s.free_id(id), refusal(Stale));
        // What the mock knows of the buffer is what was asked for.
        assert_eq!(s.mock.buffer(again.buffer().unwrap()), Some(copied(1000)));
        release(&s, again);
        let third = s.buffer(1000);
        assert_eq!((made(&s), s.must_info(third.id()).name()), ((8, 0), ""));
        s.free_each(close.into_iter().chain([elsewhere, third]));
    });
}

#[test]
fn h118_keeping_can_be_switched_off_and_gives_back() {
    nvidia(|s| {
        let region = s.buffer(1000);
        release(&s, region);
        assert_eq!(made(&s), (1, 0));
        assert!(s.set_reuse(false));
        assert_eq!(made(&s), (1, 1), "what was kept goes at once");
        let region = s.buffer(1000);
        release(&s, region);
        assert_eq!(made(&s), (2, 2), "release is free");
        assert!(!s.set_reuse(true));
        let region = s.buffer(1000);
        release(&s, region);
        assert_eq!(made(&s), (3, 2));
        assert!(s.set_reuse(true));
    });
}

#[test]
fn u8_the_longest_unwanted_makes_room() {
    let options =
        AllocatorOptions { max_reusable_buffers: 3, max_reusable_bytes: 10_000, ..AllocatorOptions::default() };
    scene(Nvidia, options, |s| {
        let regions: Vec<Region> = (1..=5).map(|n| s.buffer(n * 100)).collect();
        regions.into_iter().for_each(|region| release(&s, region));
        assert_eq!(made(&s), (5, 2), "three are kept");
        let gone = s.buffer(200);
        assert_eq!(made(&s).0, 6, "the two oldest went");
        let kept = s.buffer(300);
        assert_eq!(made(&s).0, 6, "and the others did not");
        release(&s, gone);
        release(&s, kept);
        let large = s.buffer(9_700);
        release(&s, large);
        let live = s.mock.live_counts().buffers;
        assert_eq!(live, 2, "10 000 bytes: the large one and that of 300");
        let too_large = s.buffer(10_001);
        let destroyed = made(&s).1;
        release(&s, too_large);
        assert_eq!(made(&s).1, destroyed + 1);
    });
}

#[test]
fn kept_buffers_go_before_anything_is_refused() {
    let facts = Nvidia.config().with_heap_size(0, 64 << 20);
    let mock = Mock::with_config(facts);
    let mut options = AllocatorOptions { max_reusable_bytes: u64::MAX, ..AllocatorOptions::default() };
    options.memory.max_bytes = 16 << 20;
    scene_on(&mock, options, |s| {
        let regions: Vec<Region> = (0..12).map(|n| s.buffer((1 << 20) + n * 256)).collect();
        regions.into_iter().for_each(|region| release(&s, region));
        let kept = s.mock.live_counts().buffers;
        assert!(kept > 8, "{kept} are kept");
        let needed = s.must_allocate(&bytes(8 << 20), &any());
        assert!(s.mock.live_counts().buffers < kept);
        s.free(needed);
    });
}

#[test]
fn kept_buffers_go_when_the_driver_has_none_left() {
    nvidia(|s| {
        let region = s.buffer(1000);
        release(&s, region);
        s.mock.plant(MockFault::nth(1).of(CreateBuffer).with(OutOfDeviceMemory));
        let other = s.buffer(77);
        assert_eq!(made(&s).1, 1, "the kept one went, and the second try was made");
        s.free(other);
        // Nothing kept: the refusal stands.
        s.mock.plant(MockFault::nth(1).of(CreateBuffer).with(OutOfDeviceMemory));
        let refused = s.create_buffer(&copied(77), &visible());
        assert_eq!(refused, refusal(OutOfDeviceMemory));
    });
}

#[test]
fn h95_trimming_counts_kept_buffers_and_stops_when_it_has_enough() {
    nvidia(|s| {
        let own = alone();
        let made = times(20, || s.buffer_with(1 << 20, &own));
        for buffer in made {
            s.release(buffer).unwrap();
        }
        assert_eq!(s.trim(1), 1 << 20);
        assert_eq!(s.objects(), 19);
        assert_eq!(s.trim(u64::MAX), 19 << 20);
    });
}
