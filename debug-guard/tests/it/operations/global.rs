//! A guard as a global allocator. What it keeps stays for ever, so it stands over memory of its own, a static array
//! that is never full.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use debug_guard::{GlobalGuard, GuardError, LeakMark, Mode, OnReport};
use testkit::{MemoryUse, Stage};

use super::{GuardOperation, options};

const BYTES: usize = 16 << 20;

#[repr(align(4096))]
struct Room(UnsafeCell<[u8; BYTES]>);

// SAFETY: reached through blocks only, which lie apart.
unsafe impl Sync for Room {}

static ROOM: Room = Room(UnsafeCell::new([0; BYTES]));
static TOP: AtomicUsize = AtomicUsize::new(0);

/// Gives blocks one behind the other, and takes none back.
struct Bump;

// SAFETY: blocks lie apart in the static array, aligned.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = TOP.fetch_add(layout.size() + layout.align(), SeqCst).next_multiple_of(layout.align());
        if start + layout.size() > BYTES { null_mut() } else { ROOM.0.get().cast::<u8>().wrapping_add(start) }
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

pub(super) fn table<S: Stage>() -> Vec<GuardOperation<S>> {
    vec![GuardOperation {
        names: &["GlobalGuard::guard", "GlobalGuard::new", "GlobalGuard::system"],
        how: "all of them",
        takes: |_| MemoryUse::Nothing("it has an allocator of its own"),
        body: |stage, mode| {
            // Leaked on purpose, once for all runs of a mode: a guard over a global allocator never goes.
            static MADE: [std::sync::OnceLock<GlobalGuard<Bump>>; 5] = [const { std::sync::OnceLock::new() }; 5];
            // One test at a time: what is live is counted, and of two who list leaks at once one hears of none.
            static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
            let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            stage.attempt_plainly(|| {
                // SAFETY: `Bump` has no state of its own.
                let global = MADE[mode as usize].get_or_init(|| unsafe { GlobalGuard::new(Bump, options(mode)) });
                let guard = global.guard().expect("refused nothing");
                let layout = Layout::new::<[u64; 5]>();
                let from = guard.mark();
                // SAFETY: the size is not 0.
                let block = unsafe { global.alloc(layout) };
                let mut seen = 0;
                guard.live(&mut |info| seen += usize::from(info.address == block.addr()));
                let sum = guard.leaks(from, guard.mark(), &mut |leak| seen += leak.blocks as usize);
                let recorded = guard.usable_size(std::ptr::NonNull::new(block).expect("a block")) == Some(40);
                assert_eq!((seen, sum.bytes), if recorded { (2, 40) } else { (0, 0) }, "{mode}");
                assert_eq!((guard.check_all(), recorded || mode < Mode::Cookie), (0, true), "{mode}");
                guard.exit_leaks_from(LeakMark::default());
                // SAFETY: given above with this layout.
                unsafe { global.dealloc(block, layout) };
                assert_eq!(guard.stats().live_blocks, 0, "{mode}");
                let refused = GlobalGuard::system(options(mode).on_report(OnReport::Panic));
                assert_eq!(refused.guard().err(), Some(GuardError::PanicInGlobal));
            });
        },
    }]
}
