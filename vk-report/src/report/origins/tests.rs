//! What a recorder counts, block by block.

use alloc_core::Scope;

use super::{BlockOrigin, Moment, SiteRecorder};
use crate::report::{BlockSum, LeakFrame, Phase};

const HERE: Moment = Moment { at: 0, thread: 1 };

fn origin(command: &'static str, stack: Option<usize>) -> BlockOrigin<'static> {
    BlockOrigin { context: "VkDevice", command, scope: Some(Scope::Device), stack }
}

fn phases(names: &[&str]) -> Vec<Phase> {
    let phase = |name: &&str| Phase { name: (*name).to_owned(), ..Phase::default() };
    names.iter().map(phase).collect()
}

const fn sum(blocks: u64, bytes: u64) -> BlockSum {
    BlockSum { blocks, bytes }
}

#[test]
fn a_site_counts_what_it_took_has_and_had_at_the_peak() {
    let mut recorder = SiteRecorder::default();
    let small = origin("vkCreateDevice", None);
    recorder.allocate(1, small, 20, HERE);
    recorder.allocate(2, small, 30, HERE);
    recorder.allocate(3, origin("vkCreateBuffer", None), 100, HERE);
    recorder.end_phase(true, 0);
    recorder.free(1, HERE);
    recorder.free(7, HERE);
    recorder.allocate(4, small, 25, HERE);
    recorder.free(3, HERE);
    let sites = recorder.sites();
    let [first, second] = &sites.sites[..] else {
        panic!("{sites:?}");
    };
    assert_eq!((first.size_class, second.size_class), (32, 128));
    // The peak is 155, after the fourth block.
    assert_eq!((sites.blocks, sites.most_at), (4, 4));
    assert_eq!((first.total, first.left), (sum(3, 75), sum(2, 55)));
    assert_eq!((first.live, first.at_peak, first.most), (sum(2, 50), sum(2, 55), sum(2, 55)));
    assert_eq!((second.total, second.at_peak, second.left), (sum(1, 100), sum(1, 100), sum(0, 0)));
    // Until the fourth, and to the end: 3 + 3 + 1, and 4 - 2.
    assert_eq!((first.lifetimes, second.lifetimes), (3 + 3 + 1, 2));
}

#[test]
fn a_block_that_is_resized_stays_with_its_site_and_adds_the_difference() {
    let mut recorder = SiteRecorder::default().with_events();
    recorder.allocate(1, origin("vkCreateBuffer", None), 40, HERE);
    let live = recorder.begin_resize(1, HERE).expect("known");
    assert!(recorder.begin_resize(1, HERE).is_none(), "it is on its way");
    // Another thread was served at the old address meanwhile.
    recorder.allocate(1, origin("vkCreateImage", None), 8, HERE);
    recorder.end_resize(live, 2, 100, HERE);
    let live = recorder.begin_resize(2, HERE).expect("known");
    recorder.end_resize(live, 2, 60, HERE);
    let sites = recorder.sites().sites;
    assert_eq!((sites[0].total, sites[0].left, sites[0].most), (sum(1, 100), sum(1, 60), sum(1, 100)));
    assert_eq!(sites[1].left, sum(1, 8));
    let log = recorder.drain_events();
    let changes: Vec<_> = log.blocks.iter().map(|event| event.bytes).collect();
    assert_eq!(changes, [40, -40, 8, 100, -100, 60]);
}

#[test]
fn what_is_never_freed_is_listed_with_its_object_and_its_growth_by_round() {
    let mut recorder = SiteRecorder::default();
    let frame = LeakFrame { offset: "0x10".to_owned(), ..LeakFrame::default() };
    let stack = Some(recorder.add_stack([frame.clone()].into_iter()));
    recorder.allocate(1, origin("vkCreateInstance", None), 7, HERE);
    recorder.end_phase(true, 0);
    for round in 0..3 {
        recorder.begin_command("vkCreateBuffer", HERE);
        recorder.allocate(10 + round, origin("vkCreateBuffer", stack), 96, HERE);
        recorder.allocate(20 + round, origin("vkCreateBuffer", stack), 40, HERE);
        recorder.created(HERE.thread, 0xa0 + round);
        recorder.end_phase(false, 0);
        recorder.free(20 + round, HERE);
        recorder.end_phase(false, 0);
    }
    let phases = phases(&["instance", "use", "end", "use", "end", "use", "end"]);
    let leaks = recorder.leaks(&phases);
    assert_eq!((&*leaks.mark, leaks.intervals, leaks.warm_up), ("round", 2, 1));
    let [grows, once] = &leaks.stacks[..] else {
        panic!("{leaks:?}");
    };
    assert_eq!((&*grows.command, &*grows.kind, &grows.frames[..]), ("vkCreateBuffer", "VkDevice", &[frame][..]));
    assert_eq!((grows.blocks.live, grows.blocks.bytes, grows.blocks.total), (3, 288, 6));
    let growth = grows.blocks.growth;
    assert_eq!((growth.count, growth.bytes, growth.grew, growth.shrank), (2, 192, 2, 0));
    assert!(grows.blocks.is_growing(leaks.intervals) && !once.blocks.is_growing(leaks.intervals));
    let handles: Vec<_> = grows.oldest.iter().map(|block| (&*block.handle, block.bytes)).collect();
    assert_eq!(handles, [("0xa0", 96), ("0xa1", 96), ("0xa2", 96)]);
    assert_eq!((&*once.oldest[0].handle, once.blocks.live), ("", 1));
    // Of one round nothing repeats.
    let one = recorder.leaks(&phases[..3]);
    assert_eq!((&*one.mark, one.intervals), ("none", 0));
}

#[test]
fn a_number_that_comes_again_without_its_free_ends_the_block_that_had_it() {
    let mut recorder = SiteRecorder::default().with_events();
    let buffer = origin("vkCreateBuffer", None);
    recorder.allocate(1, buffer, 1000, HERE);
    recorder.allocate(1, buffer, 500, HERE);
    recorder.allocate(2, buffer, 30, HERE);
    let live = recorder.begin_resize(2, HERE).expect("live");
    recorder.end_resize(live, 1, 40, HERE);
    let left = recorder.sites().sites.iter().fold(BlockSum::default(), |sum, site| sum.plus(site.left));
    let leaks: u64 = recorder.leaks(&[]).stacks.iter().map(|stack| stack.blocks.bytes).sum();
    assert_eq!((left, leaks), (sum(1, 40), 40));
    recorder.free(1, HERE);
    assert!(recorder.sites().sites.iter().all(|site| site.left == sum(0, 0)));
    // Each is said to go once.
    let events = recorder.drain_events();
    assert_eq!(events.blocks.iter().map(|event| event.bytes).sum::<i64>(), 0);
}

#[test]
fn an_object_has_the_blocks_of_its_command_and_no_other_ones() {
    let other = Moment { at: 0, thread: 2 };
    let mut recorder = SiteRecorder::default();
    recorder.begin_command("", HERE);
    recorder.begin_command("", other);
    let buffer = origin("vkCreateBuffer", None);
    recorder.allocate(5, buffer, 10, HERE);
    recorder.free(5, HERE);
    // Another thread is served where the temporary block was.
    recorder.allocate(5, origin("vkCreateImage", None), 77, other);
    recorder.allocate(6, buffer, 20, HERE);
    let live = recorder.begin_resize(6, HERE).expect("live");
    recorder.end_resize(live, 7, 40, HERE);
    recorder.created(1, 0xa);
    // Of two objects of one command it is not known which owns which block.
    recorder.begin_command("", HERE);
    recorder.allocate(8, origin("vkCreateGraphicsPipelines", None), 50, HERE);
    recorder.created(1, 0xb);
    recorder.created(1, 0xc);
    let leaks = recorder.leaks(&[]);
    let mut listed: Vec<_> = leaks
        .stacks
        .iter()
        .flat_map(|stack| stack.oldest.iter().map(|block| (&*stack.command, block.bytes, &*block.handle)))
        .collect();
    listed.sort_unstable();
    assert_eq!(
        listed,
        [("vkCreateBuffer", 40, "0xa"), ("vkCreateGraphicsPipelines", 50, ""), ("vkCreateImage", 77, "")]
    );
}

#[test]
fn blocks_that_a_long_command_has_freed_take_no_memory() {
    let mut recorder = SiteRecorder::default();
    recorder.begin_command("", HERE);
    for number in 0..100_000 {
        recorder.allocate(number, origin("vkCreateBuffer", None), 8, HERE);
        if number % 1000 != 0 {
            recorder.free(number, HERE);
        }
    }
    let kept = recorder.of_command[&1].numbers.len();
    assert!(kept <= 400, "{kept}");
    recorder.created(1, 0xa);
    let leaks = recorder.leaks(&[]);
    assert_eq!(leaks.stacks[0].blocks.live, 100);
    assert!(leaks.stacks[0].oldest.iter().all(|block| block.handle == "0xa"));
}

mod resize_to_nothing {
    use std::ffi::c_void;
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, Ordering};
    use std::thread;

    use vk_callbacks::CallbackSink;
    use vk_callbacks::raw::{RawCallbacks, RawNotice, RawRequest};

    use crate::report::origins::{SiteCallbacks, SiteRecorder, StackCapture};

    /// One place, which each request is served from. A resize to 0 frees it, and another thread is served there before
    /// the call returns.
    struct OnePlace;

    static SITES: AtomicPtr<SiteCallbacks> = AtomicPtr::new(ptr::null_mut());

    impl CallbackSink for OnePlace {
        unsafe fn allocation(&self, _: RawRequest) -> *mut c_void {
            ptr::without_provenance_mut(0x1000)
        }

        unsafe fn reallocation(&self, _: *mut c_void, request: RawRequest) -> *mut c_void {
            assert_eq!(request.size, 0);
            let other = thread::spawn(|| {
                // SAFETY: the test's own, which waits for this call.
                let sites = unsafe { &*SITES.load(Ordering::SeqCst) };
                let raw = sites.raw();
                let allocate = raw.pfn_allocation.expect("a function");
                // SAFETY: a plain request.
                let block = unsafe { allocate(raw.p_user_data, 500, 16, 1) };
                assert_eq!(block.addr(), 0x1000);
            });
            other.join().expect("the other thread");
            ptr::null_mut()
        }

        unsafe fn free(&self, _: *mut c_void) {}

        unsafe fn notification(&self, _: RawNotice) {}
    }

    #[test]
    fn a_resize_to_0_leaves_another_threads_block_where_it_was() {
        let capture = StackCapture::new(SiteRecorder::default()).expect("memory");
        let inner = RawCallbacks::of_sink::<OnePlace>(ptr::from_ref(&OnePlace).cast_mut().cast());
        let sites = capture.around(inner, "VkDevice");
        SITES.store(ptr::from_ref(&*sites).cast_mut(), Ordering::SeqCst);
        let raw = sites.raw();
        let allocate = raw.pfn_allocation.expect("a function");
        let reallocate = raw.pfn_reallocation.expect("a function");
        let free = raw.pfn_free.expect("a function");
        // SAFETY: a plain request.
        let block = unsafe { allocate(raw.p_user_data, 100, 16, 1) };
        // SAFETY: the block that was allocated.
        unsafe { reallocate(raw.p_user_data, block, 0, 16, 1) };
        let left = || -> u64 {
            let sites = capture.with(|recorder| recorder.sites());
            sites.sites.iter().map(|site| site.left.bytes).sum()
        };
        let leaks = capture.with(|recorder| recorder.leaks(&[]));
        let listed: u64 = leaks.stacks.iter().map(|stack| stack.blocks.bytes).sum();
        assert_eq!((listed, left()), (500, 500));
        // SAFETY: the other thread's block, at the same place.
        unsafe { free(raw.p_user_data, block) };
        assert_eq!(left(), 0);
    }
}
