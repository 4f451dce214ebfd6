//! The boundary to C: errno, panics, and the conversion of pointers and text.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::io::Write;
use std::mem::{ManuallyDrop, forget};
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::ptr::NonNull;
use std::sync::OnceLock;

use alloc_core::{Context, ContextHandle, ThreadTable};

/// The owner of a context.
#[repr(C)]
pub struct StewardContext {
    _incomplete: [u8; 0],
}

/// A counted handle to a context.
#[repr(C)]
pub struct StewardHandle {
    _incomplete: [u8; 0],
}

/// The name of a function of the interface. One word, since each call stores it and restores the outer one.
pub(crate) type FunctionName = &'static &'static str;

/// Runs a function of the interface. Preserves `errno`. A panic is a defect of this library: it is reported in one
/// line, and the process ends.
///
/// Each access to a thread-local is a call in a shared library, so there is only one.
#[inline]
pub fn enter<R>(function: FunctionName, call: impl FnOnce() -> R) -> R {
    Edge::of_this_thread().run(function, call)
}

/// As [`enter`], with the thread's table of accounts, which saves a further access to a thread-local.
#[inline]
pub(crate) fn enter_counting<R>(function: FunctionName, call: impl FnOnce(ThreadTable<'_>) -> R) -> R {
    let edge = Edge::of_this_thread();
    edge.run(function, || call(edge.table()))
}

/// Runs a function of the interface that calls no allocator, no passed function, and no C library function that sets
/// `errno`. It cannot panic; if it did, the process would end as well.
#[inline]
pub(crate) fn enter_leaf<R>(call: impl FnOnce() -> R) -> R {
    call()
}

#[cold]
#[inline(never)]
fn panicked(function: &str) -> ! {
    let mut line = [0_u8; 128];
    let mut rest = line.as_mut_slice();
    let _ = writeln!(rest, "steward: {function}: the library panicked; the process ends");
    let left = rest.len();
    let length = line.len().saturating_sub(left);
    let _ = std::io::stderr().write_all(line.get(..length).unwrap_or_default());
    std::process::abort()
}

struct Unwound(FunctionName);

impl Drop for Unwound {
    #[inline]
    fn drop(&mut self) {
        panicked(self.0)
    }
}

struct Edge {
    inside: Cell<Option<FunctionName>>,
    /// The process ends when the panic reaches the boundary.
    is_panicking: Cell<bool>,
    #[cfg(any(target_os = "linux", windows))]
    errno: Cell<*mut i32>,
    table: Cell<Option<ThreadTable<'static>>>,
}

thread_local! {
    static EDGE: Edge = const {
        Edge {
            inside: Cell::new(None),
            is_panicking: Cell::new(false),
            #[cfg(any(target_os = "linux", windows))]
            errno: Cell::new(std::ptr::null_mut()),
            table: Cell::new(None),
        }
    };
}

#[expect(clippy::disallowed_types, reason = "the standard library's own type of hooks")]
type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// A Rust program that links this library may have a hook of its own.
static OUTER: OnceLock<Hook> = OnceLock::new();

/// A panic within a function of the interface prints only [`enter`]'s line; all others go to the former hook. A second
/// panic, in a destructor that runs because of the first or in a function that cannot unwind, never reaches the
/// boundary: the hook prints the line and ends the process.
#[expect(clippy::disallowed_types, reason = "a box of a value without size takes no memory")]
pub fn quiet_panics() {
    OUTER.get_or_init(|| {
        let outer = take_hook();
        set_hook(Box::new(|panic| {
            let inside = EDGE.with(|edge| {
                let function = edge.inside.get()?;
                Some((function, edge.is_panicking.replace(true)))
            });
            match (inside, OUTER.get()) {
                (Some((function, true)), _) => panicked(function),
                (None, Some(outer)) => outer(panic),
                _ => {}
            }
        }));
        outer
    });
}

/// The saved `errno` of the thread; nothing on other systems.
#[cfg(any(target_os = "linux", windows))]
type Errno = i32;
#[cfg(not(any(target_os = "linux", windows)))]
type Errno = ();

impl Edge {
    /// A function of the interface is then compiled as a whole, and not as a closure that gets its arguments in memory.
    #[inline]
    fn of_this_thread<'t>() -> &'t Self {
        let edge = EDGE.with(std::ptr::from_ref);
        // SAFETY: this thread's own storage, without a destructor: it stays until the thread has ended, and no caller
        // outlives it.
        unsafe { &*edge }
    }

    #[inline]
    fn run<R>(&self, function: FunctionName, call: impl FnOnce() -> R) -> R {
        let errno = self.save_errno();
        let outer = self.inside.replace(Some(function));
        let unwound = Unwound(function);
        let answer = call();
        forget(unwound);
        self.inside.set(outer);
        self.restore_errno(errno);
        answer
    }

    #[inline]
    fn table(&self) -> ThreadTable<'_> {
        self.table.get().unwrap_or_else(|| self.find_table())
    }

    #[cold]
    fn find_table(&self) -> ThreadTable<'static> {
        // SAFETY: kept in this thread's own storage.
        let table = ThreadTable::with(|table| unsafe { table.for_this_thread() });
        self.table.set(Some(table));
        table
    }

    #[cfg(any(target_os = "linux", windows))]
    #[inline]
    fn save_errno(&self) -> Errno {
        let place = NonNull::new(self.errno.get()).unwrap_or_else(|| self.find_errno());
        // SAFETY: this thread's errno, always readable.
        unsafe { place.read() }
    }

    /// Reads the place again: across the call it would take a register.
    #[cfg(any(target_os = "linux", windows))]
    #[inline]
    fn restore_errno(&self, value: Errno) {
        // SAFETY: this thread's errno, always writable.
        unsafe { self.errno.get().write(value) };
    }

    #[cfg(any(target_os = "linux", windows))]
    #[cold]
    fn find_errno(&self) -> NonNull<i32> {
        #[cfg(target_os = "linux")]
        use libc::__errno_location as errno_of_this_thread;
        #[cfg(windows)]
        unsafe extern "C" {
            /// Of the C runtime that the library is linked with.
            #[link_name = "_errno"]
            fn errno_of_this_thread() -> *mut i32;
        }
        // SAFETY: returns this thread's place.
        let place = unsafe { errno_of_this_thread() };
        self.errno.set(place);
        // SAFETY: the place of an errno is never NULL.
        unsafe { NonNull::new_unchecked(place) }
    }

    #[cfg(not(any(target_os = "linux", windows)))]
    fn save_errno(&self) -> Errno {}

    #[cfg(not(any(target_os = "linux", windows)))]
    fn restore_errno(&self, (): Errno) {}
}

/// The context behind an owner's address. The caller keeps the ownership. `None` for NULL.
///
/// # Safety
/// `raw` is NULL or a live owner.
pub(crate) unsafe fn context(raw: *const StewardContext) -> Option<ManuallyDrop<Context>> {
    let raw = NonNull::new(raw.cast_mut())?;
    // SAFETY: a live owner; this second one is never dropped.
    Some(ManuallyDrop::new(unsafe { Context::from_raw(raw.cast()) }))
}

/// The owner's address.
#[must_use]
pub(crate) fn raw(context: Context) -> *mut StewardContext {
    context.into_raw().cast().as_ptr()
}

/// The handle's address.
#[must_use]
pub(crate) fn raw_handle(handle: ContextHandle) -> *mut StewardHandle {
    handle.into_raw().cast().as_ptr()
}

/// The text of a C string, up to its first invalid UTF-8; empty for NULL.
///
/// # Safety
/// `text` is NULL or a string that ends with a zero, and is not written meanwhile.
pub(crate) unsafe fn text<'t>(text: *const c_char) -> &'t str {
    if text.is_null() {
        return "";
    }
    // SAFETY: a string with an end, which nobody writes.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => text,
        Err(error) => {
            text.to_bytes().get(..error.valid_up_to()).and_then(|valid| str::from_utf8(valid).ok()).unwrap_or_default()
        }
    }
}
