//! A driver's side of the Vulkan allocation callbacks, gone wild: every size, alignment and scope, NULL, moves, frees
//! on other threads, notifications, over several sets of callbacks at once.
//!
//! Knows no bridge: it calls the raw C functions, so that whatever stands behind them is tested as a driver meets it.

use std::collections::BTreeMap;
use std::ptr::{NonNull, null_mut};
use std::thread;

use alloc_core::Scope;
use testkit::programs::{Aim, Bytes, Ran};
use testkit::{RecordingAllocator, with_hook};

use crate::common::{Driver, raw};

/// A set of callbacks, and the witness right under what stands behind them, which sees each block that is live through
/// these callbacks as one block of the same scope, at least 16 bytes larger.
#[derive(Clone, Debug)]
pub(crate) struct Stream(pub(crate) Driver, pub(crate) RecordingAllocator);

/// Most blocks that are live at once through one set of callbacks; beyond, the oldest goes first.
const MAX_LIVE: usize = 48;

/// Runs the program in `bytes`.
///
/// Checks after each operation: the answer is NULL exactly where it must be; a pointer is aligned and unique; bytes
/// survive a `realloc` up to the smaller size; a failed one leaves the block. Compares blocks and bytes by scope with
/// the witnesses every few operations and at the end, when all blocks have been freed. Where a `HookedAllocator` stands
/// behind, each of its requests makes calls through the very callbacks that led to it. The callbacks are usable from
/// any thread, and nobody else uses them or their witness meanwhile.
pub(crate) fn callback_stream(bytes: &[u8], streams: &[Stream]) -> Ran {
    let mut bytes = Bytes::new(bytes);
    let mut models: Vec<StreamModel<'_>> = streams.iter().map(StreamModel::new).collect();
    let mut ran = Ran::default();
    let aim = Aim::idle();
    with_hook(1, &|_| aim.visit(visit), || {
        while let Some(succeeded) = step(&mut bytes, &mut models, &aim) {
            ran.count(succeeded);
            if ran.operations.is_multiple_of(8) {
                models.iter().for_each(StreamModel::compare);
                ran.compared += models.len() as u64;
            }
        }
        for model in &mut models {
            aim.replace(Some(model.stream.0));
            while model.free_one(0, false) {}
            model.compare();
            ran.compared += 1;
        }
    });
    ran.reentered = aim.visits();
    ran
}

/// Calls from within a call: a block comes, moves perhaps, and goes.
fn visit(driver: &Driver, number: u64) {
    let (size, align) = (1 + number as usize * 7 % 300, 1 << (number % 8));
    let scope = Scope::ALL[(number % 5) as usize];
    let block = |at: *mut u8| StreamBlock {
        at: NonNull::new(at).expect("memory within a call"),
        size,
        align,
        scope,
        fill: number as u8 | 1,
    };
    let mut at = block(driver.alloc(size, align, scope));
    at.write();
    if number.is_multiple_of(3) {
        at = block(driver.realloc(at.at.as_ptr(), 2 * size, align, scope));
    }
    at.check(size);
    assert!(at.at.addr().get().is_multiple_of(align), "{:p}", at.at);
    driver.free(at.at.as_ptr());
}

/// One operation; `None` at the end of the bytes, else whether it did what it says.
fn step(bytes: &mut Bytes<'_>, models: &mut [StreamModel<'_>], aim: &Aim<Driver>) -> Option<bool> {
    let operation = bytes.next()?;
    let index = bytes.below(models.len())?;
    let model = models.get_mut(index)?;
    aim.replace(Some(model.stream.0));
    Some(match operation % 16 {
        0..=5 => {
            if model.blocks.len() >= MAX_LIVE {
                model.free_one(0, false);
            }
            model.allocate(bytes.size()?, bytes.alignment()?, bytes.scope()?.as_raw() as i32)
        }
        6..=9 => {
            let (which, size) = (bytes.below(MAX_LIVE)?, bytes.size()?);
            // Now and then with another alignment than the original's, which a driver must not do (V15): the original's
            // holds.
            let align = if operation % 16 == 9 { Some(bytes.alignment()?) } else { None };
            model.reallocate(which, size, align)
        }
        10 | 11 => model.free_one(bytes.below(MAX_LIVE)?, false),
        12 => model.free_one(bytes.below(MAX_LIVE)?, true),
        13 => {
            let (size, scope) = (bytes.size()?, bytes.next()?);
            model.notify(size, i32::from(scope / 64), i32::from(scope % 64) % 7)
        }
        14 => model.nothing(bytes.next()?, bytes.alignment()?),
        _ => model.impossible(bytes.next()?, bytes.below(MAX_LIVE)?),
    })
}

struct StreamModel<'a> {
    stream: &'a Stream,
    /// In the order they were taken.
    blocks: Vec<StreamBlock>,
    /// Bytes and blocks that were live before, by scope: what stands behind may keep its own state in the same
    /// allocator.
    before: [(u64, u64); Scope::COUNT],
    notices: usize,
    fill: u8,
}

struct StreamBlock {
    at: NonNull<u8>,
    size: usize,
    align: usize,
    scope: Scope,
    fill: u8,
}

impl<'a> StreamModel<'a> {
    fn new(stream: &'a Stream) -> Self {
        let notices = stream.1.notices().len();
        Self { stream, blocks: Vec::new(), before: live(&stream.1), notices, fill: 0 }
    }

    fn allocate(&mut self, size: usize, align: usize, scope: i32) -> bool {
        let at = self.stream.0.alloc_raw(size, align, scope);
        self.enter(at, size, align, scope)
    }

    /// The block that `at` must be.
    fn enter(&mut self, at: *mut u8, size: usize, align: usize, scope: i32) -> bool {
        let scope = u32::try_from(scope).ok().and_then(Scope::from_raw).expect("a valid scope was asked for");
        let at = NonNull::new(at).unwrap_or_else(|| panic!("NULL for {size} bytes, alignment {align}"));
        assert!(at.as_ptr().addr().is_multiple_of(align), "{at:p} is not aligned to {align}");
        assert!(self.blocks.iter().all(|block| block.at != at), "{at:p} is live already");
        self.fill = self.fill.wrapping_add(1);
        let block = StreamBlock { at, size, align, scope, fill: self.fill };
        block.write();
        self.blocks.push(block);
        true
    }

    fn reallocate(&mut self, which: usize, size: usize, align: Option<usize>) -> bool {
        let driver = self.stream.0;
        let Some(which) = which.checked_rem(self.blocks.len()) else {
            // As pfnAllocation (V13).
            let at = driver.realloc_raw(null_mut(), size, 8, 1);
            // NULL and size 0: nothing to free, nothing to give (V14).
            return if size == 0 { at.is_null() } else { self.enter(at, size, 8, 1) };
        };
        let block = &mut self.blocks[which];
        block.check(block.size);
        let align_now = align.unwrap_or(block.align);
        let at = driver.realloc(block.at.as_ptr(), size, align_now, block.scope);
        if size == 0 {
            // Frees (V14).
            assert!(at.is_null(), "a realloc to 0 bytes gave {at:p}");
            self.blocks.remove(which);
            return true;
        }
        let Some(at) = NonNull::new(at) else {
            // The old block stays (V16).
            block.check(block.size);
            assert!(align.is_some(), "NULL for a realloc to {size} bytes");
            return false;
        };
        assert!(at.as_ptr().addr().is_multiple_of(block.align), "{at:p} is not aligned to {}", block.align);
        block.at = at;
        block.check(block.size.min(size));
        block.size = size;
        block.write();
        let lower = self.blocks.iter().filter(|block| block.at == at).count();
        assert_eq!(lower, 1, "{at:p} is live twice");
        true
    }

    /// Frees a block, on a thread of its own or here; false when there is none.
    fn free_one(&mut self, which: usize, elsewhere: bool) -> bool {
        let Some(which) = which.checked_rem(self.blocks.len()) else {
            return false;
        };
        let block = self.blocks.remove(which);
        block.check(block.size);
        let call = StreamCall(self.stream.0, block.at.as_ptr());
        if elsewhere {
            thread::scope(|threads| threads.spawn(move || call.make()).join()).expect("pfnFree does not panic");
        } else {
            call.make();
        }
        true
    }

    /// Calls that must do nothing: free of NULL, realloc of NULL to 0.
    fn nothing(&self, which: u8, align: usize) -> bool {
        if which.is_multiple_of(2) {
            // NULL may always be freed (V18).
            self.stream.0.free(null_mut());
        } else {
            // NULL may always be reallocated (V13, V14).
            let at = self.stream.0.realloc_raw(null_mut(), 0, align, 0);
            assert!(at.is_null(), "a realloc of NULL to 0 bytes gave {at:p}");
        }
        true
    }

    /// Requests that nobody can fulfil: NULL, and a block that was to be resized stays.
    fn impossible(&mut self, kind: u8, which: usize) -> bool {
        let driver = self.stream.0;
        let huge = [usize::MAX, usize::MAX - 15, isize::MAX as usize, isize::MAX as usize - 15, 1 << (usize::BITS - 1)];
        let (size, align, scope) = match kind % 8 {
            kind @ 0..=4 => (huge[usize::from(kind)], 8, 1),
            5 => (16, 0, 1),
            6 => (16, 24, 1),
            _ => (16, 8, 5 + i32::from(kind)),
        };
        let at = driver.alloc_raw(size, align, scope);
        assert!(at.is_null(), "{at:p} for {size} bytes, alignment {align}, scope {scope}");
        if let Some(which) = which.checked_rem(self.blocks.len()) {
            let block = &self.blocks[which];
            let size = huge[usize::from(kind % 5)];
            let at = driver.realloc_raw(block.at.as_ptr(), size, block.align, raw(block.scope));
            assert!(at.is_null(), "{at:p} for a realloc to a size that cannot be");
            block.check(block.size);
        }
        false
    }

    fn notify(&mut self, size: usize, kind: i32, scope: i32) -> bool {
        // A notification is purely informational (V21).
        for taken in [true, false] {
            self.stream.0.internal(taken, size, kind, scope);
        }
        // There is one kind, executable memory, and there are five scopes; anything else is not passed on.
        let valid = kind == 0 && scope < Scope::COUNT as i32;
        self.notices += if valid { 2 } else { 0 };
        valid
    }

    /// What the witness saw is what the model knows.
    fn compare(&self) {
        let mut model: BTreeMap<Scope, (u64, u64)> = BTreeMap::new();
        for block in &self.blocks {
            let (bytes, blocks) = model.entry(block.scope).or_default();
            *bytes += block.size as u64;
            *blocks += 1;
        }
        for (scope, (before, now)) in Scope::ALL.into_iter().zip(self.before.into_iter().zip(live(&self.stream.1))) {
            let (bytes, blocks) = model.get(&scope).copied().unwrap_or_default();
            assert_eq!(now.1 - before.1, blocks, "live blocks of scope {scope}");
            let taken = now.0 - before.0;
            assert!(
                taken >= bytes + 16 * blocks,
                "{taken} bytes of scope {scope} for {blocks} blocks of {bytes} bytes"
            );
            assert!(blocks > 0 || taken == 0, "{taken} bytes of scope {scope} for no block");
        }
        assert_eq!(self.stream.1.notices().len(), self.notices, "notifications passed on");
    }
}

impl StreamBlock {
    fn write(&self) {
        // SAFETY: the block is live and has this size.
        unsafe { self.at.as_ptr().write_bytes(self.fill, self.size) };
    }

    fn check(&self, len: usize) {
        // SAFETY: the block is live, at least this large, and was written over its whole size.
        let content = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), len) };
        assert!(
            content.iter().all(|byte| *byte == self.fill),
            "{:p}: {len} bytes are not as they were written",
            self.at
        );
    }
}

/// A free that can be made on another thread.
struct StreamCall(Driver, *mut u8);

// SAFETY: callbacks may be used from any thread, says the caller of `callback_stream`; the block goes with the call.
unsafe impl Send for StreamCall {}

impl StreamCall {
    fn make(self) {
        self.0.free(self.1);
    }
}

/// Bytes and blocks that are live, by scope.
fn live(witness: &RecordingAllocator) -> [(u64, u64); Scope::COUNT] {
    Scope::ALL.map(|scope| {
        let tally = witness.scope(scope);
        (tally.live_bytes, tally.live_blocks)
    })
}
