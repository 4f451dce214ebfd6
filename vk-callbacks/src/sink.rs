//! The C functions of `VkAllocationCallbacks` over a Rust value, and calls of such functions.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};
use core::{fmt, ptr};

use alloc_core::NoticeEvent;

use crate::raw::{RawCallbacks, RawInternalType, RawNotice, RawRequest, RawScope};

/// The receiver of callbacks, which the user data identifies. [`RawCallbacks::of_sink`] returns the callbacks of a
/// sink.
///
/// [`RawCallbacks`] are a sink themselves: a call calls their function with their user data. A NULL function refuses,
/// or does nothing.
pub trait CallbackSink {
    /// The sink of this user data. If there is none, a request is answered with NULL, and the mistake is told
    /// ([`on_call_mistake`]).
    ///
    /// # Safety
    /// `user_data` is the address of a `Self` that lives through the call, or one that [`is_no_address_of`]; unless the
    /// sink overrides this function.
    unsafe fn of_user_data<'a>(user_data: *mut c_void) -> Option<&'a Self>
    where
        Self: Sized + 'a,
    {
        if is_no_address_of::<Self>(user_data) {
            return None;
        }
        // SAFETY: the address of a `Self` that lives through the call.
        Some(unsafe { &*user_data.cast::<Self>() })
    }

    /// `pfnAllocation`.
    ///
    /// # Safety
    /// The rules of Vulkan for a call of this function.
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void;

    /// `pfnReallocation`.
    ///
    /// # Safety
    /// As [`allocation`](Self::allocation).
    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void;

    /// `pfnFree`.
    ///
    /// # Safety
    /// As [`allocation`](Self::allocation).
    unsafe fn free(&self, block: *mut c_void);

    /// `pfnInternalAllocation` or `pfnInternalFree`.
    ///
    /// # Safety
    /// As [`allocation`](Self::allocation).
    unsafe fn notification(&self, notice: RawNotice);
}

/// No `T` is at an address that is NULL, not aligned, in the first page, or of no program's memory.
#[inline]
pub(crate) fn is_no_address_of<T>(address: *mut c_void) -> bool {
    // Nothing is read through the address of a type without size, which may be any number.
    if size_of::<T>() == 0 {
        return address.is_null();
    }
    !address.cast::<T>().is_aligned() || is_no_memory(address.addr())
}

#[inline]
pub(crate) const fn is_no_memory(address: usize) -> bool {
    const FIRST: usize = if cfg!(any(unix, windows)) { 4096 } else { 1 };
    // The upper half is the kernel's. Elsewhere the upper bits may be tags.
    const LAST: usize = if cfg!(target_arch = "x86_64") { isize::MAX.cast_unsigned() } else { usize::MAX };
    address.wrapping_sub(FIRST) > LAST - FIRST
}

#[cold]
fn unknown_user_data(callback: Callback, user_data: *mut c_void) {
    report_mistake(callback, CallMistakeKind::UserData, user_data.addr());
}

impl RawCallbacks {
    /// All five functions, for the sink of `user_data`. Valid as long as the sink.
    #[must_use]
    pub fn of_sink<S: CallbackSink>(user_data: *mut c_void) -> Self {
        Self {
            p_user_data: user_data,
            pfn_allocation: Some(allocation::<S>),
            pfn_reallocation: Some(reallocation::<S>),
            pfn_free: Some(free::<S>),
            pfn_internal_allocation: Some(notification::<S, false>),
            pfn_internal_free: Some(notification::<S, true>),
        }
    }

    /// Without the functions that `other` lacks.
    #[must_use]
    pub fn only_those_of(self, other: &Self) -> Self {
        Self {
            p_user_data: self.p_user_data,
            pfn_allocation: self.pfn_allocation.filter(|_| other.pfn_allocation.is_some()),
            pfn_reallocation: self.pfn_reallocation.filter(|_| other.pfn_reallocation.is_some()),
            pfn_free: self.pfn_free.filter(|_| other.pfn_free.is_some()),
            pfn_internal_allocation: self.pfn_internal_allocation.filter(|_| other.pfn_internal_allocation.is_some()),
            pfn_internal_free: self.pfn_internal_free.filter(|_| other.pfn_internal_free.is_some()),
        }
    }
}

impl CallbackSink for RawCallbacks {
    #[inline]
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        let RawRequest { size, align, scope } = request;
        match self.pfn_allocation {
            // SAFETY: Vulkan's rules allow the call, and the user data is the function's.
            Some(function) => unsafe { function(self.p_user_data, size, align, scope) },
            None => ptr::null_mut(),
        }
    }

    #[inline]
    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        let RawRequest { size, align, scope } = request;
        match self.pfn_reallocation {
            // SAFETY: Vulkan's rules allow the call, and the user data is the function's.
            Some(function) => unsafe { function(self.p_user_data, original, size, align, scope) },
            None => ptr::null_mut(),
        }
    }

    #[inline]
    unsafe fn free(&self, block: *mut c_void) {
        if let Some(function) = self.pfn_free {
            // SAFETY: Vulkan's rules allow the call, and the user data is the function's.
            unsafe { function(self.p_user_data, block) }
        }
    }

    unsafe fn notification(&self, notice: RawNotice) {
        let function = match notice.event {
            NoticeEvent::Allocated => self.pfn_internal_allocation,
            NoticeEvent::Freed => self.pfn_internal_free,
        };
        if let Some(function) = function {
            // SAFETY: Vulkan's rules allow the call, and the user data is the function's.
            unsafe { function(self.p_user_data, notice.size, notice.kind, notice.scope) }
        }
    }
}

/// # Safety
/// As [`CallbackSink::of_user_data`] and the sink's function, as for all functions here.
unsafe extern "system" fn allocation<S: CallbackSink>(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    // SAFETY: the user data is that of a sink that lives through the call, or wrong as `of_user_data` allows.
    let Some(sink) = (unsafe { S::of_user_data(user_data) }) else {
        unknown_user_data(Callback::Allocation, user_data);
        return ptr::null_mut();
    };
    // SAFETY: a call that Vulkan's rules allow.
    unsafe { sink.allocation(RawRequest { size, align, scope }) }
}

unsafe extern "system" fn reallocation<S: CallbackSink>(
    user_data: *mut c_void,
    original: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    // SAFETY: user data of a sink that lives through the call, or wrong as `of_user_data` allows.
    let Some(sink) = (unsafe { S::of_user_data(user_data) }) else {
        unknown_user_data(Callback::Reallocation, user_data);
        return ptr::null_mut();
    };
    // SAFETY: a call that Vulkan's rules allow.
    unsafe { sink.reallocation(original, RawRequest { size, align, scope }) }
}

unsafe extern "system" fn free<S: CallbackSink>(user_data: *mut c_void, block: *mut c_void) {
    // SAFETY: user data of a sink that lives through the call, or wrong as `of_user_data` allows.
    if let Some(sink) = unsafe { S::of_user_data(user_data) } {
        // SAFETY: a call that Vulkan's rules allow.
        unsafe { sink.free(block) }
    } else {
        unknown_user_data(Callback::Free, user_data);
    }
}

unsafe extern "system" fn notification<S: CallbackSink, const IS_FREE: bool>(
    user_data: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    let event = if IS_FREE { NoticeEvent::Freed } else { NoticeEvent::Allocated };
    // SAFETY: user data of a sink that lives through the call, or wrong as `of_user_data` allows.
    if let Some(sink) = unsafe { S::of_user_data(user_data) } {
        let notice = RawNotice { event, size, kind, scope };
        // SAFETY: a call that Vulkan's rules allow.
        unsafe { sink.notification(notice) }
    } else {
        unknown_user_data(Callback::of_notice(event), user_data);
    }
}

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
#[non_exhaustive]
pub enum CallMistakeKind {
    /// `pUserData` is not that of the callbacks (V5): it is NULL, a small number, not aligned, or the address of
    /// readable memory that is no bridge. Other wrong addresses are followed, and may crash.
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

static LISTENER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Sets the function that is called at each wrong call of callbacks of this library. The library itself prints nothing.
///
/// ```
/// vk_callbacks::bridge::on_call_mistake(|mistake| eprintln!("vulkan: {mistake}"));
/// ```
pub fn on_call_mistake(listener: CallMistakeListener) {
    LISTENER.store(listener as *mut (), Ordering::Release);
}

#[cold]
#[inline(never)]
pub(crate) fn report_mistake(callback: Callback, kind: CallMistakeKind, value: usize) {
    let listener = LISTENER.load(Ordering::Acquire);
    if !listener.is_null() {
        // SAFETY: only a `CallMistakeListener` is ever stored.
        let listener = unsafe { core::mem::transmute::<*mut (), CallMistakeListener>(listener) };
        listener(&CallMistake { callback, kind, value });
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
        let Self { callback, kind, value } = *self;
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
            CallMistakeKind::Scope => {
                ": Vulkan has five scopes, 0 to 4 (V35), and one type of internal memory, 0 (V20)"
            }
            CallMistakeKind::Pointer => {
                ": it is no live block of these callbacks (V11, V19), but freed before, or of another allocator"
            }
        })?;
        f.write_str(match (kind, callback) {
            (CallMistakeKind::Alignment, Callback::Reallocation) => "; a live block keeps its own alignment",
            (_, Callback::Allocation | Callback::Reallocation) => "; the answer is NULL",
            _ => "; the call is ignored",
        })
    }
}
