//! The backing under a child's accounts: what the driver asks for can be made to fail, what the accounts take for
//! themselves cannot, and each side has a witness.

use std::alloc::Layout;
#[cfg(unix)]
use std::ffi::CStr;
use std::ffi::c_void;
#[cfg(unix)]
use std::path::Path;
use std::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, HostError, Notice, PointerStatus, Scope};
use debug_guard::{FailingAllocator, Fault};
use testkit::{RecordingAllocator, ScopeTally};
use vk_callbacks::command::{current_command, in_callback};

/// What a bridge puts in front of a block that is aligned to no more than this.
const HEADER: usize = 16;

/// Two allocators in one. A request made inside a callback is the driver's.
pub(super) struct Refusing {
    driver: FailingAllocator<RecordingAllocator>,
    own: RecordingAllocator,
}

impl Refusing {
    pub(super) fn new() -> Self {
        Self {
            driver: FailingAllocator::new(RecordingAllocator::system(), Fault::Never),
            own: RecordingAllocator::system(),
        }
    }

    /// Counts the driver's requests from 0 again, and refuses what `fault` says.
    pub(super) fn arm(&self, fault: Fault) {
        self.driver.arm(fault);
    }

    /// The driver's requests since [`Refusing::arm`].
    pub(super) fn requests(&self) -> u64 {
        self.driver.requests()
    }

    /// What the driver was given, as its witness saw it.
    pub(super) fn given(&self) -> ScopeTally {
        self.driver.inner().total()
    }

    fn side(&self) -> &dyn HostAllocator {
        if in_callback() { &self.driver } else { &self.own }
    }

    /// Says whose request it was before the driver learns of the refusal, which it may not survive.
    fn told(
        &self,
        answer: Result<NonNull<u8>, AllocError>,
        layout: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        if answer.is_err() {
            let command = current_command().map_or("-", |command| command.name);
            let size = layout.size().saturating_sub(layout.align().max(HEADER));
            println!("refused\t{command}\t{scope}\t{size}\t{}", asking_module());
        }
        answer
    }
}

// SAFETY: each block goes back to the side it came from: callbacks free only what callbacks gave, and the accounts take
// and give back their own records outside of callbacks. A block of the other side would make the side's witness panic.
unsafe impl HostAllocator for Refusing {
    fn traits(&self) -> AllocatorTraits {
        let (mut traits, driver) = (self.own.traits(), self.driver.traits());
        traits.may_unwind |= driver.may_unwind;
        traits.exact_alignment |= driver.exact_alignment;
        traits.tracks_requester |= driver.tracks_requester;
        traits
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.told(self.side().allocate(layout, scope), layout, scope)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.told(self.side().allocate_zeroed(layout, scope), layout, scope)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: `side` gave out the block with this layout, as all that this allocator gives out.
        unsafe { self.side().deallocate(block, layout, scope) }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: `side` gave out the block with the old layout, as all that this allocator gives out.
        self.told(unsafe { self.side().resize(block, old, new, scope) }, new, scope)
    }

    fn notify(&self, notice: Notice) {
        self.side().notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.side().refusal(layout, scope)
    }

    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        self.side().validate_pointer(pointer, front)
    }
}

/// The library that called the callback: the first on the stack that is neither this program nor the C library.
fn asking_module() -> String {
    let own = module_of((asking_module as fn() -> String) as *const c_void).map(|(base, _)| base);
    let mut found = None;
    backtrace::trace(|frame| {
        found = module_of(frame.ip()).filter(|(base, name)| {
            Some(*base) != own && !["libc.", "libgcc_s."].iter().any(|library| name.starts_with(library))
        });
        found.is_none()
    });
    found.map_or_else(|| "-".into(), |(_, name)| name)
}

#[cfg(not(unix))]
const fn module_of(_: *const c_void) -> Option<(usize, String)> {
    None
}

/// Where the module at `address` begins, and its file name.
#[cfg(unix)]
fn module_of(address: *const c_void) -> Option<(usize, String)> {
    // SAFETY: a struct of pointers; NULL is a value of each.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about, and `info` can be written.
    if unsafe { libc::dladdr(address, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr found a module, whose name ends with 0 and lives as long as it is loaded: it is on our stack.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy();
    let name = Path::new(path.as_ref()).file_name()?.to_string_lossy().into_owned();
    Some((info.dli_fbase.addr(), name))
}
