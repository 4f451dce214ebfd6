//! Raw arguments become references here, and nowhere else.

use ash::vk;
use vk_callbacks::{CallbackError, VK_ERROR_OUT_OF_HOST_MEMORY};

pub(crate) trait Answer {
    /// Returned for arguments that are no valid usage.
    const INVALID: Self;

    #[cfg(planted)]
    fn wrong(result: vk::Result) -> Self;
}

impl Answer for () {
    const INVALID: Self = ();

    #[cfg(planted)]
    fn wrong(_: vk::Result) -> Self {}
}

impl Answer for vk::Result {
    const INVALID: Self = Self::ERROR_UNKNOWN;

    #[cfg(planted)]
    fn wrong(result: Self) -> Self {
        result
    }
}

pub(crate) fn refused(error: CallbackError) -> vk::Result {
    match error {
        CallbackError::Host(_) => vk::Result::from_raw(VK_ERROR_OUT_OF_HOST_MEMORY),
        other => vk::Result::from_raw(other.vk_result()),
    }
}

pub(crate) fn answer(done: Result<(), vk::Result>) -> vk::Result {
    done.err().unwrap_or(vk::Result::SUCCESS)
}

/// Defines commands of Vulkan. Behind `as` stands the reference that replaces a raw argument in the body:
///
/// | | |
/// |-|-|
/// | `object T`, `object_mut T` | the value behind the handle of an `Object<T>` |
/// | `items (T, E)`, `items_mut (T, E)` | value and items behind the handle of an `ArrayObject<T, E>` |
/// | `read _`, `write _` | the value behind a pointer |
///
/// For NULL the command returns `ERROR_UNKNOWN`, or does nothing.
///
/// # Safety of the commands
/// The arguments satisfy the valid usage of the command of that name, external synchronisation included.
macro_rules! commands {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty $(as $how:ident $kind:ty)?),* $(,)?) $(-> $ret:ty)? $body:block)*) => {$(
        $(#[$meta])*
        pub(crate) unsafe extern "system" fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(planted)]
            if let Some(planted) = $crate::defects::enter(stringify!($name)) {
                return $crate::edge::Answer::wrong(planted);
            }
            $($(
                // SAFETY: valid usage: a live handle of this kind, or a pointer to what the command accesses and no
                // other thread changes.
                let Some($arg) = (unsafe { $crate::edge::reference!($how $kind, $arg) }) else {
                    return $crate::edge::Answer::INVALID;
                };
            )?)*
            $body
        }
    )*};
}

macro_rules! reference {
    (object $kind:ty, $arg:ident) => {
        $crate::edge::get::<$kind>(ash::vk::Handle::as_raw($arg))
    };
    (object_mut $kind:ty, $arg:ident) => {
        vk_callbacks::Object::<$kind>::borrow_handle_mut(ash::vk::Handle::as_raw($arg))
    };
    (items $kind:ty, $arg:ident) => {
        $crate::edge::Items::<$kind>::get(ash::vk::Handle::as_raw($arg))
    };
    (items_mut $kind:ty, $arg:ident) => {
        $crate::edge::Items::<$kind>::get_mut(ash::vk::Handle::as_raw($arg))
    };
    (read $kind:ty, $arg:ident) => {
        $arg.as_ref()
    };
    (write $kind:ty, $arg:ident) => {
        $arg.as_mut()
    };
}

pub(crate) use {commands, reference};

/// # Safety
/// As `Object::borrow_handle`.
pub(crate) unsafe fn get<'a, T>(handle: u64) -> Option<&'a T> {
    // SAFETY: this function's contract.
    unsafe { vk_callbacks::Object::<T>::borrow_handle(handle) }.map(|object| object.get())
}

/// Names an `ArrayObject<T, E>` by one type.
pub(crate) struct Items<P>(core::marker::PhantomData<P>);

impl<T: 'static, E: 'static> Items<(T, E)> {
    /// # Safety
    /// As `ArrayObject::borrow_handle`.
    pub(crate) unsafe fn get<'a>(handle: u64) -> Option<(&'a T, &'a [E])> {
        // SAFETY: this function's contract.
        unsafe { vk_callbacks::driver::ArrayObject::borrow_handle(handle) }
    }

    /// # Safety
    /// As `ArrayObject::borrow_handle_mut`.
    pub(crate) unsafe fn get_mut<'a>(handle: u64) -> Option<(&'a mut T, &'a mut [E])> {
        // SAFETY: this function's contract.
        unsafe { vk_callbacks::driver::ArrayObject::borrow_handle_mut(handle) }
    }
}

/// None if `first` is NULL.
///
/// # Safety
/// `first` is NULL or points to `count` values that do not change during `'a`.
pub(crate) unsafe fn slice<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: this function's contract.
    unsafe { core::slice::from_raw_parts(first, count as usize) }
}

/// # Safety
/// `first` is NULL or points to room for `count` values, which are used only through this slice during `'a`.
pub(crate) unsafe fn slice_mut<'a, T>(first: *mut T, count: u32) -> &'a mut [T] {
    if first.is_null() || count == 0 {
        return &mut [];
    }
    // SAFETY: this function's contract.
    unsafe { core::slice::from_raw_parts_mut(first, count as usize) }
}

/// Writes only the number of values if `out` is NULL, else as many as there is room for.
///
/// # Safety
/// `count` is valid; `out` is NULL or has room for `count` values.
pub(crate) unsafe fn list<T: Clone>(all: &[T], count: &mut u32, out: *mut T) -> vk::Result {
    if out.is_null() {
        *count = all.len() as u32;
        return vk::Result::SUCCESS;
    }
    // SAFETY: this function's contract: room for `count` values.
    let room = unsafe { slice_mut(out, *count) };
    let mut written = 0;
    for (place, value) in room.iter_mut().zip(all) {
        *place = value.clone();
        written += 1;
    }
    *count = written;
    if (written as usize) < all.len() { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
}

pub(crate) fn typed<H: vk::Handle>(handle: u64) -> H {
    H::from_raw(handle)
}

pub(crate) fn raw<H: vk::Handle>(handle: H) -> u64 {
    handle.as_raw()
}

/// # Safety
/// `first` is NULL or the first of a chain of valid structures, which no other thread uses meanwhile.
pub(crate) unsafe fn each_output(
    first: *mut core::ffi::c_void,
    mut fill: impl FnMut(vk::StructureType, *mut vk::BaseOutStructure<'_>),
) {
    let mut next = first.cast::<vk::BaseOutStructure<'_>>();
    while !next.is_null() {
        // SAFETY: this function's contract: each begins with its type and the next one.
        let head = unsafe { next.read() };
        fill(head.s_type, next);
        next = head.p_next.cast();
    }
}
