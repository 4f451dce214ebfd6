//! The op programs against plain reference implementations, and against broken ones that they must find.

use std::alloc::Layout;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};

use alloc_core::{HostAllocator, Notice, NoticeEvent, Scope};
use testkit::RecordingAllocator;
use testkit::programs::{
    Ran, Stream, StreamCallbacks, callback_stream, context_tree_text, replay, replay_named,
};

/// The simplest callbacks that keep Vulkan's rules: size, alignment and scope stand in front of the block.
struct Reference {
    witness: RecordingAllocator,
    fault: TreeFault,
}

/// What a broken set of callbacks does wrong.
#[derive(Clone, Copy, PartialEq)]
enum TreeFault {
    None,
    LeaksOnFree,
    LosesBytesOnRealloc,
    IgnoresAlignment,
    GivesNullForNothing,
    KeepsNoticesToItself,
}

#[derive(Clone, Copy)]
struct ProgramHeader {
    size: usize,
    align: usize,
    scope: Scope,
}

fn layout(size: usize, align: usize) -> Option<(Layout, usize)> {
    let offset = size_of::<ProgramHeader>().next_multiple_of(align);
    let layout = Layout::from_size_align(size.checked_add(offset)?, align.max(8)).ok()?;
    (size < 1 << 40).then_some((layout, offset))
}

unsafe extern "system" fn allocate(
    user: *mut c_void,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: the user data of these functions is a `Reference`.
    let reference = unsafe { &*user.cast::<Reference>() };
    let Some(scope) = u32::try_from(scope).ok().and_then(Scope::from_raw) else {
        return null_mut();
    };
    if !align.is_power_of_two() || (size == 0 && reference.fault == TreeFault::GivesNullForNothing)
    {
        return null_mut();
    }
    let wanted = if reference.fault == TreeFault::IgnoresAlignment {
        align.min(8)
    } else {
        align
    };
    let Some((layout, offset)) = layout(size, wanted) else {
        return null_mut();
    };
    let Ok(base) = reference.witness.allocate(layout, scope) else {
        return null_mut();
    };
    // SAFETY: the block is larger than `offset`.
    let at = unsafe { base.add(offset) };
    // SAFETY: the header lies between `base` and `at`; both are at least 8-aligned.
    let header = unsafe { header(at) };
    // SAFETY: the header lies between `base` and `at`; both are at least 8-aligned.
    unsafe {
        header.write(ProgramHeader {
            size,
            align: wanted,
            scope,
        })
    };
    at.as_ptr().cast()
}

/// # Safety
/// `at` is a block given by `allocate`.
unsafe fn header(at: NonNull<u8>) -> NonNull<ProgramHeader> {
    // SAFETY: a header stands in front of every block.
    unsafe { at.cast::<ProgramHeader>().sub(1) }
}

unsafe extern "system" fn free(user: *mut c_void, at: *mut c_void) {
    // SAFETY: the user data of these functions is a `Reference`.
    let reference = unsafe { &*user.cast::<Reference>() };
    let Some(at) = NonNull::new(at.cast::<u8>()) else {
        return;
    };
    // SAFETY: a live block.
    let header = unsafe { header(at) };
    // SAFETY: written when the block was taken.
    let ProgramHeader { size, align, scope } = unsafe { header.read() };
    let (layout, offset) = layout(size, align).expect("it was valid when the block was taken");
    if reference.fault != TreeFault::LeaksOnFree {
        // SAFETY: the base of the block.
        let base = unsafe { at.sub(offset) };
        // SAFETY: the layout and scope of the block.
        unsafe { reference.witness.deallocate(base, layout, scope) };
    }
}

unsafe extern "system" fn reallocate(
    user: *mut c_void,
    at: *mut c_void,
    size: usize,
    align: usize,
    scope: i32,
) -> *mut c_void {
    // SAFETY: the user data of these functions is a `Reference`.
    let fault = unsafe { &*user.cast::<Reference>() }.fault;
    let Some(original) = NonNull::new(at.cast::<u8>()) else {
        return if size == 0 {
            null_mut()
        } else {
            // SAFETY: as pfnAllocation.
            unsafe { allocate(user, size, align, scope) }
        };
    };
    // SAFETY: a live block.
    let header = unsafe { header(original) };
    // SAFETY: written when the block was taken.
    let old = unsafe { header.read() };
    let new = if size == 0 {
        null_mut()
    } else {
        // SAFETY: as pfnAllocation.
        unsafe { allocate(user, size, old.align, old.scope.as_raw() as i32) }
    };
    if !new.is_null() && fault != TreeFault::LosesBytesOnRealloc {
        // SAFETY: both blocks are live and at least that large.
        unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), new.cast(), size.min(old.size)) };
    }
    if !new.is_null() || size == 0 {
        // SAFETY: the old block is live.
        unsafe { free(user, at) };
    }
    new
}

fn notify(user: *mut c_void, bytes: usize, kind: i32, scope: i32, event: NoticeEvent) {
    // SAFETY: the user data of these functions is a `Reference`.
    let reference = unsafe { &*user.cast::<Reference>() };
    if let (0, Some(scope)) = (kind, Scope::from_raw(scope as u32))
        && reference.fault != TreeFault::KeepsNoticesToItself
    {
        reference.witness.notify(Notice {
            event,
            bytes,
            scope,
        });
    }
}

unsafe extern "system" fn taken(user: *mut c_void, bytes: usize, kind: i32, scope: i32) {
    notify(user, bytes, kind, scope, NoticeEvent::Allocated);
}

unsafe extern "system" fn given_back(user: *mut c_void, bytes: usize, kind: i32, scope: i32) {
    notify(user, bytes, kind, scope, NoticeEvent::Freed);
}

fn run(bytes: &[u8], fault: TreeFault) -> Ran {
    let references = [(); 3].map(|()| Reference {
        witness: RecordingAllocator::system(),
        fault,
    });
    let streams = references.each_ref().map(|reference| Stream {
        callbacks: StreamCallbacks {
            user_data: (&raw const *reference).cast_mut().cast(),
            allocate,
            reallocate,
            free,
            notify: Some((taken, given_back)),
        },
        witness: reference.witness.clone(),
    });
    // SAFETY: the functions keep Vulkan's rules as far as `fault` lets them, and the references outlive the call.
    unsafe { callback_stream(bytes, &streams) }
}

#[test]
fn callback_stream_passes_what_is_right() {
    replay("callback_stream", 200, |bytes| run(bytes, TreeFault::None));
}

#[test]
fn callback_stream_finds_what_is_not() {
    let faults = [
        TreeFault::LeaksOnFree,
        TreeFault::LosesBytesOnRealloc,
        TreeFault::IgnoresAlignment,
        TreeFault::GivesNullForNothing,
        TreeFault::KeepsNoticesToItself,
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let found = (0..100).any(|seed| {
            let program = testkit::Rng::new(seed).bytes(400);
            catch_unwind(AssertUnwindSafe(|| run(&program, fault))).is_err()
        });
        assert!(found, "fault {number} was not found");
    }
}

#[test]
fn context_tree_equals_its_model() {
    replay("context_tree", 1000, testkit::programs::context_tree);
}

/// Two requests of each program are made on another thread: the first is refused, because of what this thread leases, the second is the
/// same again when that was given back.
#[test]
fn a_context_refuses_early_by_what_another_thread_leases_and_no_more() {
    replay_named("context_tree", |text| {
        let ran = context_tree_text(text);
        assert_eq!(
            text.lines()
                .filter(|line| line.ends_with("elsewhere"))
                .count(),
            2
        );
        assert_eq!(ran.succeeded + 1, ran.operations, "{ran:?}");
    });
}

#[test]
fn context_tree_equals_its_model_while_the_backing_uses_it() {
    let ran = replay(
        "context_tree",
        1000,
        testkit::programs::context_tree_reentered,
    );
    assert!(ran.reentered > ran.operations / 2, "{ran:?}");
}

#[test]
fn owned_values_equal_their_model() {
    replay("owned_values", 1000, testkit::programs::owned_values);
}

#[test]
fn owned_values_equal_their_model_while_the_backing_uses_them() {
    let ran = replay(
        "owned_values",
        1000,
        testkit::programs::owned_values_reentered,
    );
    assert!(ran.reentered > ran.operations / 2, "{ran:?}");
}
