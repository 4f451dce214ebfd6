//! A driver's side of the Vulkan allocation callbacks, gone wild: every size, alignment and scope, NULL, moves, frees on other
//! threads, notifications, over several sets of callbacks at once.
//!
//! Knows no bridge: it drives the raw C functions, so that whatever stands behind them is tested as a driver meets it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::thread;

use alloc_core::Scope;

use crate::hooked::with_hook;
use crate::programs::side::Aim;
use crate::programs::{Bytes, Ran};
use crate::recording_allocator::RecordingAllocator;

type Allocate = unsafe extern "system" fn(*mut c_void, usize, usize, i32) -> *mut c_void;
type Reallocate =
    unsafe extern "system" fn(*mut c_void, *mut c_void, usize, usize, i32) -> *mut c_void;
type Free = unsafe extern "system" fn(*mut c_void, *mut c_void);
type Notify = unsafe extern "system" fn(*mut c_void, usize, i32, i32);

/// The functions of one `VkAllocationCallbacks`.
#[derive(Clone, Copy, Debug)]
pub struct StreamCallbacks {
    /// `pUserData`.
    pub user_data: *mut c_void,
    /// `pfnAllocation`.
    pub allocate: Allocate,
    /// `pfnReallocation`.
    pub reallocate: Reallocate,
    /// `pfnFree`.
    pub free: Free,
    /// `pfnInternalAllocation` and `pfnInternalFree`, both or neither.
    pub notify: Option<(Notify, Notify)>,
}

/// `VkAllocationCallbacks`, byte for byte.
#[repr(C)]
#[derive(Clone, Copy)]
struct CStruct {
    user_data: *mut c_void,
    allocate: Option<Allocate>,
    reallocate: Option<Reallocate>,
    free: Option<Free>,
    taken: Option<Notify>,
    given_back: Option<Notify>,
}

/// A set of callbacks and the witness right under what stands behind them.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The functions a driver would get.
    pub callbacks: StreamCallbacks,
    /// Sees each block that is live through these callbacks as one block of the same scope, at least 16 bytes larger.
    pub witness: RecordingAllocator,
}

impl Stream {
    /// Reads the functions out of the `VkAllocationCallbacks` at `callbacks`.
    ///
    /// # Safety
    /// There is one.
    ///
    /// # Panics
    /// When it lacks one of the three functions that must be there.
    #[must_use]
    pub unsafe fn new(callbacks: *const c_void, witness: RecordingAllocator) -> Self {
        // SAFETY: this function's contract: a valid structure.
        let CStruct {
            user_data,
            allocate,
            reallocate,
            free,
            taken,
            given_back,
        } = unsafe { callbacks.cast::<CStruct>().read() };
        let all = allocate.zip(reallocate).zip(free);
        let ((allocate, reallocate), free) =
            all.expect("three functions (VUID-VkAllocationCallbacks-pfnAllocation-00632 to 00634)");
        Self {
            callbacks: StreamCallbacks {
                user_data,
                allocate,
                reallocate,
                free,
                notify: taken.zip(given_back),
            },
            witness,
        }
    }
}

/// Most blocks that are live at once through one set of callbacks; beyond, the oldest goes first.
const MAX_LIVE: usize = 48;

/// Runs the program in `bytes`.
///
/// Checks after each operation: the answer is NULL exactly where it must be; a pointer is aligned and unique; bytes survive a
/// `realloc` up to the smaller size; a failed one leaves the block. Compares blocks and bytes by scope with the witnesses every
/// few operations and at the end, when all blocks have been freed. Where a [`HookedAllocator`](crate::HookedAllocator) stands behind,
/// each of its requests makes calls through the very callbacks that led to it.
///
/// # Safety
/// The callbacks are valid and usable from any thread until this returns, and nobody else uses them or their witness meanwhile.
///
/// # Panics
/// When the callbacks and the model disagree.
pub unsafe fn callback_stream(bytes: &[u8], streams: &[Stream]) -> Ran {
    let mut bytes = Bytes::new(bytes);
    let mut models: Vec<StreamModel<'_>> = streams.iter().map(StreamModel::new).collect();
    let mut ran = Ran::default();
    let aim = Aim::new();
    with_hook(1, &|_| aim.visit(visit), || {
        while let Some(succeeded) = step(&mut bytes, &mut models, &aim) {
            ran.count(succeeded);
            if ran.operations.is_multiple_of(8) {
                models.iter().for_each(StreamModel::compare);
                ran.compared += models.len() as u64;
            }
        }
        for model in &mut models {
            aim.replace(Some(model.stream.callbacks));
            while model.free_one(0, false) {}
            model.compare();
            ran.compared += 1;
        }
    });
    ran.reentered = aim.visits();
    ran
}

/// Calls from within a call: a block comes, moves perhaps, and goes.
fn visit(callbacks: &StreamCallbacks, number: u64) {
    let StreamCallbacks {
        user_data,
        allocate,
        reallocate,
        free,
        ..
    } = *callbacks;
    let (size, align) = (1 + number as usize * 7 % 300, 1 << (number % 8));
    let scope = Scope::ALL[(number % 5) as usize];
    // SAFETY: valid callbacks (`Stream::new`); any size, alignment and scope may be requested.
    let at = unsafe { allocate(user_data, size, align, scope.as_raw() as i32) };
    let mut at = NonNull::new(at.cast::<u8>()).expect("memory within a call");
    let fill = number as u8 | 1;
    StreamBlock {
        at,
        size,
        align,
        scope,
        fill,
    }
    .write();
    if number.is_multiple_of(3) {
        // SAFETY: the original is live and these callbacks' own.
        let moved = unsafe {
            reallocate(
                user_data,
                at.as_ptr().cast(),
                2 * size,
                align,
                scope.as_raw() as i32,
            )
        };
        at = NonNull::new(moved.cast()).expect("memory within a call");
    }
    StreamBlock {
        at,
        size,
        align,
        scope,
        fill,
    }
    .check(size);
    assert!(
        at.as_ptr().addr().is_multiple_of(align),
        "{at:p} is not aligned to {align}"
    );
    // SAFETY: the block is live and these callbacks' own.
    unsafe { free(user_data, at.as_ptr().cast()) };
}

/// One operation; `None` at the end of the bytes, else whether it did what it says.
fn step(
    bytes: &mut Bytes<'_>,
    models: &mut [StreamModel<'_>],
    aim: &Aim<StreamCallbacks>,
) -> Option<bool> {
    let operation = bytes.next()?;
    let index = bytes.below(models.len())?;
    let model = models.get_mut(index)?;
    aim.replace(Some(model.stream.callbacks));
    Some(match operation % 16 {
        0..=5 => {
            if model.blocks.len() >= MAX_LIVE {
                model.free_one(0, false);
            }
            model.allocate(
                bytes.size()?,
                bytes.alignment()?,
                bytes.scope()?.as_raw() as i32,
            )
        }
        6..=9 => {
            let (which, size) = (bytes.below(MAX_LIVE)?, bytes.size()?);
            // Now and then with another alignment than the original's, which a driver must not do (V15): the original's holds.
            let align = if operation % 16 == 9 {
                Some(bytes.alignment()?)
            } else {
                None
            };
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
    /// Bytes and blocks that were live before, by scope: what stands behind may keep its own state in the same allocator.
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
        let notices = stream.witness.notices().len();
        Self {
            stream,
            blocks: Vec::new(),
            before: live(&stream.witness),
            notices,
            fill: 0,
        }
    }

    fn allocate(&mut self, size: usize, align: usize, scope: i32) -> bool {
        let StreamCallbacks {
            user_data,
            allocate,
            ..
        } = self.stream.callbacks;
        // SAFETY: valid callbacks; any size, alignment and scope may be asked for.
        let at = unsafe { allocate(user_data, size, align, scope) };
        self.enter(at, size, align, scope)
    }

    /// The block that `at` must be.
    fn enter(&mut self, at: *mut c_void, size: usize, align: usize, scope: i32) -> bool {
        let scope = u32::try_from(scope)
            .ok()
            .and_then(Scope::from_raw)
            .expect("a valid scope was asked for");
        let at = NonNull::new(at.cast::<u8>())
            .unwrap_or_else(|| panic!("NULL for {size} bytes, alignment {align}"));
        assert!(
            at.as_ptr().addr().is_multiple_of(align),
            "{at:p} is not aligned to {align}"
        );
        assert!(
            self.blocks.iter().all(|block| block.at != at),
            "{at:p} is live already"
        );
        self.fill = self.fill.wrapping_add(1);
        let block = StreamBlock {
            at,
            size,
            align,
            scope,
            fill: self.fill,
        };
        block.write();
        self.blocks.push(block);
        true
    }

    fn reallocate(&mut self, which: usize, size: usize, align: Option<usize>) -> bool {
        let StreamCallbacks {
            user_data,
            reallocate,
            ..
        } = self.stream.callbacks;
        let Some(which) = which.checked_rem(self.blocks.len()) else {
            // SAFETY: as pfnAllocation (V13).
            let at = unsafe { reallocate(user_data, null_mut(), size, 8, 1) };
            // NULL and size 0: nothing to free, nothing to give (V14).
            return if size == 0 {
                at.is_null()
            } else {
                self.enter(at, size, 8, 1)
            };
        };
        let block = &mut self.blocks[which];
        block.check(block.size);
        let (original, scope) = (block.at.as_ptr().cast(), block.scope.as_raw() as i32);
        // SAFETY: the original is live and these callbacks' own.
        let at = unsafe {
            reallocate(
                user_data,
                original,
                size,
                align.unwrap_or(block.align),
                scope,
            )
        };
        if size == 0 {
            // Frees (V14).
            assert!(at.is_null(), "a realloc to 0 bytes gave {at:p}");
            self.blocks.remove(which);
            return true;
        }
        let Some(at) = NonNull::new(at.cast::<u8>()) else {
            // The old block stays (V16).
            block.check(block.size);
            assert!(align.is_some(), "NULL for a realloc to {size} bytes");
            return false;
        };
        assert!(
            at.as_ptr().addr().is_multiple_of(block.align),
            "{at:p} is not aligned to {}",
            block.align
        );
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
        let StreamCallbacks {
            user_data, free, ..
        } = self.stream.callbacks;
        let call = StreamCall {
            free,
            user_data,
            at: block.at.as_ptr().cast(),
        };
        if elsewhere {
            thread::scope(|threads| threads.spawn(move || call.make()).join())
                .expect("pfnFree does not panic");
        } else {
            call.make();
        }
        true
    }

    /// Calls that must do nothing: free of NULL, realloc of NULL to 0.
    fn nothing(&self, which: u8, align: usize) -> bool {
        let StreamCallbacks {
            user_data,
            reallocate,
            free,
            ..
        } = self.stream.callbacks;
        if which.is_multiple_of(2) {
            // SAFETY: NULL may always be freed (V18).
            unsafe { free(user_data, null_mut()) };
        } else {
            // SAFETY: NULL may always be reallocated (V13, V14).
            let at = unsafe { reallocate(user_data, null_mut(), 0, align, 0) };
            assert!(at.is_null(), "a realloc of NULL to 0 bytes gave {at:p}");
        }
        true
    }

    /// Requests that nobody can fulfil: NULL, and a block that was to be resized stays.
    fn impossible(&mut self, kind: u8, which: usize) -> bool {
        let StreamCallbacks {
            user_data,
            allocate,
            ..
        } = self.stream.callbacks;
        let huge = [
            usize::MAX,
            usize::MAX - 15,
            isize::MAX as usize,
            isize::MAX as usize - 15,
            1 << (usize::BITS - 1),
        ];
        let (size, align, scope) = match kind % 8 {
            kind @ 0..=4 => (huge[usize::from(kind)], 8, 1),
            5 => (16, 0, 1),
            6 => (16, 24, 1),
            _ => (16, 8, 5 + i32::from(kind)),
        };
        // SAFETY: valid callbacks; what they are asked for is theirs to judge.
        let at = unsafe { allocate(user_data, size, align, scope) };
        assert!(
            at.is_null(),
            "{at:p} for {size} bytes, alignment {align}, scope {scope}"
        );
        if let Some(which) = which.checked_rem(self.blocks.len()) {
            let block = &self.blocks[which];
            let (original, raw) = (block.at.as_ptr().cast(), block.scope.as_raw() as i32);
            // SAFETY: the original is live and these callbacks' own.
            let at = unsafe {
                (self.stream.callbacks.reallocate)(
                    user_data,
                    original,
                    huge[usize::from(kind % 5)],
                    block.align,
                    raw,
                )
            };
            assert!(
                at.is_null(),
                "{at:p} for a realloc to a size that cannot be"
            );
            block.check(block.size);
        }
        false
    }

    fn notify(&mut self, size: usize, kind: i32, scope: i32) -> bool {
        let StreamCallbacks {
            user_data, notify, ..
        } = self.stream.callbacks;
        let Some((taken, given_back)) = notify else {
            return false;
        };
        // SAFETY: valid callbacks; a notification is purely informational (V21).
        unsafe { taken(user_data, size, kind, scope) };
        // SAFETY: valid callbacks; a notification is purely informational (V21).
        unsafe { given_back(user_data, size, kind, scope) };
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
        for (scope, (before, now)) in Scope::ALL
            .into_iter()
            .zip(self.before.into_iter().zip(live(&self.stream.witness)))
        {
            let (bytes, blocks) = model.get(&scope).copied().unwrap_or_default();
            assert_eq!(now.1 - before.1, blocks, "live blocks of scope {scope}");
            let taken = now.0 - before.0;
            assert!(
                taken >= bytes + 16 * blocks,
                "{taken} bytes of scope {scope} for {blocks} blocks of {bytes} bytes"
            );
            assert!(
                blocks > 0 || taken == 0,
                "{taken} bytes of scope {scope} for no block"
            );
        }
        assert_eq!(
            self.stream.witness.notices().len(),
            self.notices,
            "notifications passed on"
        );
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
struct StreamCall {
    free: Free,
    user_data: *mut c_void,
    at: *mut c_void,
}

// SAFETY: callbacks may be used from any thread, says the caller of `callback_stream`; the block goes with the call.
unsafe impl Send for StreamCall {}

impl StreamCall {
    fn make(self) {
        // SAFETY: the block is live and these callbacks' own.
        unsafe { (self.free)(self.user_data, self.at) };
    }
}

/// Bytes and blocks that are live, by scope.
fn live(witness: &RecordingAllocator) -> [(u64, u64); Scope::COUNT] {
    Scope::ALL.map(|scope| {
        let tally = witness.scope(scope);
        (tally.live_bytes, tally.live_blocks)
    })
}
