//! Mistakes of whoever calls callbacks: each is answered, and can be told in one line.

use core::fmt;
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::NoticeEvent;

/// One of the five callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Callback {
    /// `pfnAllocation`.
    Allocation,
    /// `pfnReallocation`.
    Reallocation,
    /// `pfnFree`.
    Free,
    /// `pfnInternalAllocation`.
    InternalAllocation,
    /// `pfnInternalFree`.
    InternalFree,
}

/// What was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CallMistakeKind {
    /// `pUserData` is not that of the callbacks (V5). Found if it is NULL, a small number, not aligned, or the address of readable memory that
    /// is no bridge. Other wrong addresses are followed, and may crash.
    UserData,
    /// The alignment is no power of two, or above 2^31 (V7). For a live block it differs from the block's (V15).
    Alignment,
    /// The size is 2^47 bytes or more, or more than the address space.
    Size,
    /// The scope, or the type of an internal notification, is none of Vulkan's (V35, V20).
    Scope,
    /// The pointer is no live block of these callbacks (V11, V19).
    Pointer,
}

/// A wrong call of a callback, as a [`CallMistakeListener`] gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallMistake {
    /// The function that was called.
    pub callback: Callback,
    /// What was wrong.
    pub kind: CallMistakeKind,
    /// The wrong argument.
    pub value: usize,
}

/// A function that is called at each wrong call, on the calling thread, with no lock held. It must not unwind.
pub type CallMistakeListener = fn(&CallMistake);

static LISTENER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the function that is called at each wrong call of callbacks of this library, whichever bridge they are of. The library itself prints
/// nothing.
///
/// ```
/// vk_callbacks::bridge::on_call_mistake(|mistake| eprintln!("vulkan: {mistake}"));
/// ```
pub fn on_call_mistake(listener: CallMistakeListener) {
    LISTENER.store(listener as *mut (), Ordering::Release);
}

/// Calls the listener, if there is one.
#[cold]
#[inline(never)]
pub(crate) fn report_mistake(callback: Callback, kind: CallMistakeKind, value: usize) {
    let listener = LISTENER.load(Ordering::Acquire);
    if !listener.is_null() {
        // SAFETY: only a `CallMistakeListener` is ever stored.
        let listener = unsafe { core::mem::transmute::<*mut (), CallMistakeListener>(listener) };
        listener(&CallMistake {
            callback,
            kind,
            value,
        });
    }
}

impl Callback {
    pub(crate) const fn of_notice(event: NoticeEvent) -> Self {
        match event {
            NoticeEvent::Allocated => Self::InternalAllocation,
            NoticeEvent::Freed => Self::InternalFree,
        }
    }

    /// Vulkan's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocation => "pfnAllocation",
            Self::Reallocation => "pfnReallocation",
            Self::Free => "pfnFree",
            Self::InternalAllocation => "pfnInternalAllocation",
            Self::InternalFree => "pfnInternalFree",
        }
    }
}

impl fmt::Display for CallMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            callback,
            kind,
            value,
        } = *self;
        write!(f, "{} was called with ", callback.name())?;
        match kind {
            CallMistakeKind::UserData if value == 0 => f.write_str("pUserData NULL")?,
            CallMistakeKind::UserData => write!(f, "pUserData {value:#x}")?,
            CallMistakeKind::Alignment => write!(f, "alignment {value}")?,
            CallMistakeKind::Size => write!(f, "size {value}")?,
            CallMistakeKind::Scope => write!(f, "scope or type {}", value.cast_signed())?,
            CallMistakeKind::Pointer => write!(f, "{value:#x}")?,
        }
        f.write_str(match kind {
            CallMistakeKind::UserData => {
                ": the first argument must be pUserData of the VkAllocationCallbacks that the function is from (V5)"
            }
            CallMistakeKind::Alignment => {
                ": it must be a power of two up to 2^31 (V7), and a block's own when it is reallocated (V15)"
            }
            CallMistakeKind::Size => ": no address space has as many bytes (V7)",
            CallMistakeKind::Scope => ": Vulkan has five scopes, 0 to 4 (V35), and one type of internal memory, 0 (V20)",
            CallMistakeKind::Pointer => {
                ": it is no live block of these callbacks (V11, V19), but freed before, or of another allocator"
            }
        })?;
        f.write_str(match (kind, callback) {
            (CallMistakeKind::Alignment, Callback::Reallocation) => {
                "; a live block keeps its own alignment"
            }
            (_, Callback::Allocation | Callback::Reallocation) => "; the answer is NULL",
            _ => "; the call is ignored",
        })
    }
}
