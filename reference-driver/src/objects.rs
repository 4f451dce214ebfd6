//! The device's objects: for each, one line of `objects_table.rs` that creates and destroys it.
//!
//! A creation copies the command's callbacks, builds the chain of allocators, and places the object in memory of the
//! most specific one. A destruction builds the chain from the callbacks of the destroying command; the object's receipt
//! says which level frees the memory. Every object is created and destroyed this way.

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

/// Defines the two commands of each object.
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

/// `VkFence`: whether it is signalled.
pub(crate) struct Fence(pub(crate) AtomicBool);
/// `VkSemaphore`: submits run in order, so no submit waits.
pub(crate) struct Semaphore;
/// `VkEvent`: whether it is set.
pub(crate) struct Event(pub(crate) AtomicBool);
/// `VkQueryPool`: samples that passed.
pub(crate) type Queries = ArrayObject<(), AtomicU64>;
/// A query without a result.
pub(crate) const UNAVAILABLE: u64 = u64::MAX;
/// `VkBuffer`: no bytes until it is bound.
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

/// `VkBufferView`.
pub(crate) struct BufferView(pub(crate) Bytes);
/// `VkSampler`: the address mode of each axis. Integers are sampled with the nearest filter only.
pub(crate) struct Sampler(pub(crate) [vk::SamplerAddressMode; 2]);
/// `VkSamplerYcbcrConversion`.
pub(crate) struct SamplerYcbcrConversion;
/// `VkShaderModule`: its words.
pub(crate) type ShaderModule = ArrayObject<(), u32>;
/// `VkPipelineCache`: empty, because nothing is compiled.
pub(crate) struct PipelineCache;
/// `VkPipelineLayout`.
pub(crate) struct PipelineLayout;
/// `VkDescriptorSetLayout`: binding and number of descriptors.
pub(crate) type SetLayout = ArrayObject<(), (u32, u32)>;
/// `VkDescriptorUpdateTemplate`.
pub(crate) type UpdateTemplate = ArrayObject<(), vk::DescriptorUpdateTemplateEntry>;
/// `VkRenderPass`: which attachments are cleared.
pub(crate) type RenderPass = ArrayObject<ColorTarget, bool>;
/// `VkFramebuffer`.
pub(crate) type Framebuffer = ArrayObject<(), Surface>;

/// The attachment that a render pass draws to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorTarget {
    /// The attachment of that number, of its only subpass.
    Attachment(u32),
    /// Attachments that the driver cannot draw to: it creates no pipeline for the pass.
    Unsupported,
}

impl ColorTarget {
    fn of(info: &vk::RenderPassCreateInfo<'_>) -> Self {
        // SAFETY: valid usage: the array is as long as it says.
        let subpasses = unsafe { slice(info.p_subpasses, info.subpass_count) };
        let [pass] = subpasses else {
            return Self::Unsupported;
        };
        // SAFETY: valid usage: the array is as long as it says.
        let colors = unsafe { slice(pass.p_color_attachments, pass.color_attachment_count) };
        let plain = pass.input_attachment_count == 0
            && pass.p_resolve_attachments.is_null()
            && pass.p_depth_stencil_attachment.is_null();
        match colors {
            [color] if plain && color.attachment != vk::ATTACHMENT_UNUSED => {
                Self::Attachment(color.attachment)
            }
            _ => Self::Unsupported,
        }
    }
}

/// The memory bound to a buffer; none for NULL.
pub(crate) fn buffer_bytes(buffer: vk::Buffer) -> Bytes {
    // SAFETY: valid usage: a live buffer, which does not change meanwhile.
    unsafe { get::<Buffer>(raw(buffer)) }.map_or(Bytes::NONE, |buffer| buffer.bytes)
}

/// An object of the driver with a handle.
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
                // Without callbacks of its level the object is leaked: the application broke V42.
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

/// A refusal as the `VkResult` of the command.
pub(crate) fn placed<O, T>(object: Result<O, Rejected<T, CallbackError>>) -> Result<O, vk::Result> {
    object.map_err(|rejected| refused(rejected.error))
}

/// The common part of all creations.
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

/// The common part of all destructions.
pub(crate) fn destroy<O: AnyObject>(
    device: &Device,
    p_allocator: *const vk::AllocationCallbacks<'_>,
    handle: u64,
) {
    // SAFETY: valid usage of the destroying command: this is the handle's last use.
    let Some(object) = (unsafe { O::of(handle) }) else {
        return;
    };
    // SAFETY: valid usage of the destroying command.
    if let Ok(own) = unsafe { own(p_allocator.cast()) } {
        // SAFETY: compatible callbacks, level by level (V42).
        unsafe { object.end(&device.chain(own.as_ref())) }
    }
}

/// Whether a flag of an event, fence or queue is set. If so, the writes before it are visible.
pub(crate) fn is_up(flag: &AtomicBool) -> bool {
    flag.load(Acquire)
}
