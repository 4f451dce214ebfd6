//! The device's objects: one line of `objects_table.rs` creates and destroys each.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire};

use alloc_core::{Rejected, Scope};
use ash::vk;
use vk_callbacks::driver::ArrayObject;
use vk_callbacks::{CallbackError, FallbackChain, Object};

use crate::bytes::{Bytes, Mapping};
use crate::device::{Device, own};
use crate::edge::{answer, commands, get, raw, refused, slice, typed};
use crate::images::{Image, Surface};
use crate::memory::aligned;

macro_rules! objects {
    ($($create:ident, $destroy:ident: $handle:ident($info_type:ident) = $object:ty, |$chain:ident, $info:ident| $make:expr;)*) => {
        commands! {$(
            fn $create(device: vk::Device as object Device, info: *const vk::$info_type<'_> as read _, p_allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::$handle as write _) -> vk::Result {
                let $info = info;
                create::<$object, _>(device, p_allocator, out, |$chain| $make)
            }
            fn $destroy(device: vk::Device as object Device, object: vk::$handle, p_allocator: *const vk::AllocationCallbacks<'_>) {
                destroy::<$object>(device, p_allocator, raw(object));
            }
        )*}
    };
}
include!("objects_table.rs");

/// Whether the fence is signalled.
pub(crate) struct Fence(pub(crate) AtomicBool);
/// Submits run in order, so no submit waits.
pub(crate) struct Semaphore;
/// Whether the event is set.
pub(crate) struct Event(pub(crate) AtomicBool);
/// Samples that passed.
pub(crate) type Queries = ArrayObject<(), AtomicU64>;
/// No result yet.
pub(crate) const UNAVAILABLE: u64 = u64::MAX;
/// A buffer has no bytes until it is bound.
pub(crate) struct Buffer {
    pub(crate) size: u64,
    pub(crate) bytes: Bytes,
}

impl Buffer {
    fn new(size: u64) -> Result<Self, vk::Result> {
        let bytes = Bytes::NONE;
        aligned(size).map(|_| Self { size, bytes })
    }
}

pub(crate) struct BufferView(pub(crate) Bytes);
/// The address mode of each axis. Integers are sampled with the nearest filter only.
pub(crate) struct Sampler(pub(crate) [vk::SamplerAddressMode; 2]);
pub(crate) struct SamplerYcbcrConversion;
pub(crate) type ShaderModule = ArrayObject<(), u32>;
/// Nothing is compiled, so caches are empty.
pub(crate) struct PipelineCache;
pub(crate) struct PipelineLayout;
/// Binding and number of descriptors.
pub(crate) type SetLayout = ArrayObject<(), (u32, u32)>;
pub(crate) type UpdateTemplate = ArrayObject<(), vk::DescriptorUpdateTemplateEntry>;
/// Which attachments are cleared.
pub(crate) type RenderPass = ArrayObject<ColorTarget, bool>;
pub(crate) type Framebuffer = ArrayObject<(), Surface>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorTarget {
    /// An attachment of the only subpass.
    Attachment(u32),
    /// The driver creates no pipeline for the pass.
    Unsupported,
}

impl ColorTarget {
    fn of(info: &vk::RenderPassCreateInfo<'_>) -> Self {
        // SAFETY: valid usage: so many elements.
        let subpasses = unsafe { slice(info.p_subpasses, info.subpass_count) };
        let [pass] = subpasses else {
            return Self::Unsupported;
        };
        // SAFETY: valid usage: so many elements.
        let colors = unsafe { slice(pass.p_color_attachments, pass.color_attachment_count) };
        let plain = pass.input_attachment_count == 0
            && pass.p_resolve_attachments.is_null()
            && pass.p_depth_stencil_attachment.is_null();
        match colors {
            [color] if plain && color.attachment != vk::ATTACHMENT_UNUSED => Self::Attachment(color.attachment),
            _ => Self::Unsupported,
        }
    }
}

/// None for NULL.
pub(crate) fn buffer_bytes(buffer: vk::Buffer) -> Bytes {
    // SAFETY: valid usage: a live, unchanging buffer.
    unsafe { get::<Buffer>(raw(buffer)) }.map_or(Bytes::NONE, |buffer| buffer.bytes)
}

pub(crate) trait AnyObject: Sized {
    /// # Safety
    /// As `Object::from_handle`.
    unsafe fn of(handle: u64) -> Option<Self>;
    fn handle(self) -> u64;
    /// # Safety
    /// As `Object::destroy`.
    unsafe fn end(self, chain: &FallbackChain<'_>);
}

macro_rules! any_object {
    ($([$($of:ident),*] $object:ty;)*) => {$(
        impl<$($of),*> AnyObject for $object {
            unsafe fn of(handle: u64) -> Option<Self> {
                // SAFETY: this function's contract.
                unsafe { Self::from_handle(handle) }
            }
            fn handle(self) -> u64 {
                self.into_handle()
            }
            unsafe fn end(self, chain: &FallbackChain<'_>) {
                // An application that breaks V42 leaks the object.
                // SAFETY: this function's contract.
                let _ = unsafe { self.destroy(chain) };
            }
        }
    )*};
}

any_object! {
    [T] Object<T>;
    [T, E] ArrayObject<T, E>;
}

pub(crate) fn placed<O, T>(object: Result<O, Rejected<T, CallbackError>>) -> Result<O, vk::Result> {
    object.map_err(|rejected| refused(rejected.error))
}

pub(crate) fn create<O: AnyObject, H: vk::Handle>(
    device: &Device,
    p_allocator: *const vk::AllocationCallbacks<'_>,
    out: &mut H,
    make: impl FnOnce(&FallbackChain<'_>) -> Result<O, vk::Result>,
) -> vk::Result {
    *out = typed(0);
    // SAFETY: valid usage of the creating command.
    let own = match unsafe { own(p_allocator.cast()) } {
        Ok(own) => own,
        Err(result) => return result,
    };
    let made = make(&device.chain(own.as_ref()));
    answer(made.map(|object| *out = typed(object.handle())))
}

pub(crate) fn destroy<O: AnyObject>(device: &Device, p_allocator: *const vk::AllocationCallbacks<'_>, handle: u64) {
    // SAFETY: valid usage: the handle's last use.
    let Some(object) = (unsafe { O::of(handle) }) else {
        return;
    };
    // SAFETY: valid usage of the destroying command.
    if let Ok(own) = unsafe { own(p_allocator.cast()) } {
        // SAFETY: compatible callbacks (V42).
        unsafe { object.end(&device.chain(own.as_ref())) }
    }
}

/// If the flag is set, the writes before it are visible.
pub(crate) fn is_up(flag: &AtomicBool) -> bool {
    flag.load(Acquire)
}
