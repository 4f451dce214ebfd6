//! Refusals of `steward-gpu.h`: Vulkan's result, and a sentence that the same thread can read.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::fmt::{self, Write};

use gpu_suballoc::GpuError;
use gpu_suballoc::allocator::{OptionsParseError, OutstandingRegions};
use gpu_suballoc::virtual_block::VirtualBlockError;

use crate::account::{Sink, StewardWriterFn};
use crate::ash::INITIALIZATION_FAILED;
use crate::edge::enter;
use crate::refusal::{self, NOT_READY, OUT_OF_DEVICE_MEMORY, note};

#[derive(Clone, Copy, Debug)]
pub(crate) enum GpuRefusal {
    /// The allocator's, or the device's.
    Gpu(GpuError),
    /// A virtual block's, but for the host's memory.
    Virtual(VirtualBlockError),
    /// Invalid options.
    Options(OptionsParseError),
    Mistake(&'static str),
    /// The driver lacks a command of Vulkan 1.0.
    NoCommand(&'static CStr),
    NotClosed(OutstandingRegions),
}

thread_local! {
    static LAST: Cell<Option<GpuRefusal>> = const { Cell::new(None) };
}

impl fmt::Display for GpuRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu(error) => error.fmt(f),
            Self::Virtual(error) => error.fmt(f),
            Self::Options(error) => error.fmt(f),
            Self::Mistake(sentence) => f.write_str(sentence),
            Self::NoCommand(name) => write!(
                f,
                "{} is not there: pass vkGetInstanceProcAddr of the loader or driver that made instance and device",
                name.to_string_lossy()
            ),
            Self::NotClosed(left) => write!(f, "{left}; steward_gpu_json names them"),
        }
    }
}

/// Notes why this thread was refused; what the host's memory refused, and mistakes, also for `steward_last_refusal`.
pub(crate) fn refused_because(why: GpuRefusal) -> i32 {
    // A thread that is ending has no place to note it.
    let _ = LAST.try_with(|last| last.set(Some(why)));
    match why {
        GpuRefusal::Gpu(GpuError::Host(error)) => note(error),
        GpuRefusal::Gpu(GpuError::Misuse(_)) | GpuRefusal::Options(_) | GpuRefusal::Mistake(_) => refusal::misused(),
        GpuRefusal::Gpu(other) => other.as_vk_result(),
        GpuRefusal::Virtual(
            VirtualBlockError::Full | VirtualBlockError::TooLarge | VirtualBlockError::TooManyRanges,
        ) => OUT_OF_DEVICE_MEMORY,
        GpuRefusal::Virtual(_) => refusal::misused(),
        GpuRefusal::NoCommand(_) => INITIALIZATION_FAILED,
        GpuRefusal::NotClosed(_) => NOT_READY,
    }
}

/// As [`refused_because`], for what the allocator refused.
pub(crate) fn refused(error: GpuError) -> i32 {
    refused_because(GpuRefusal::Gpu(error))
}

/// As [`refused_because`], for a mistake of the caller's.
pub(crate) fn misused(sentence: &'static str) -> i32 {
    refused_because(GpuRefusal::Mistake(sentence))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn steward_gpu_last_error(writer: Option<StewardWriterFn>, user: *mut c_void) -> bool {
    enter(&"steward_gpu_last_error", || {
        let last = LAST.try_with(Cell::get).ok().flatten();
        let (Some(error), Some(writer)) = (last, writer) else {
            return false;
        };
        write!(Sink { writer, user }, "{error}").is_ok()
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn steward_gpu_driver_owns_import() -> bool {
    enter(&"steward_gpu_driver_owns_import", || {
        let last = LAST.try_with(Cell::get).ok().flatten();
        matches!(last, Some(GpuRefusal::Gpu(error)) if error.driver_owns_import())
    })
}
