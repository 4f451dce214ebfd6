use core::ffi::c_void;

use ash::vk;
use vk_callbacks::driver::ArrayObject;

use crate::bytes::Bytes;
use crate::edge::{Items, commands, get, raw, slice};
use crate::images::Surface;
use crate::objects::{BufferView, Sampler, buffer_bytes};

pub(crate) type Set = ArrayObject<(), Slot>;

#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) binding: u32,
    pub(crate) element: u32,
    pub(crate) descriptor: Descriptor,
}

#[derive(Clone, Copy)]
pub(crate) enum Descriptor {
    None,
    /// A buffer's bytes, or its texels.
    Bytes(Bytes),
    Picture(Surface, [vk::SamplerAddressMode; 2]),
}

impl Slot {
    pub(crate) const NONE: Self = Self { binding: 0, element: 0, descriptor: Descriptor::None };
}

/// An array that is longer than its binding continues in the next one.
fn slots<'a>(set: vk::DescriptorSet, binding: u32, element: u32) -> &'a mut [Slot] {
    // SAFETY: valid usage: a live set, externally synchronised.
    let Some((_, slots)) = (unsafe { Items::<((), Slot)>::get_mut(raw(set)) }) else {
        return &mut [];
    };
    let found = slots.iter().position(|slot| (slot.binding, slot.element) == (binding, element));
    found.and_then(|first| slots.get_mut(first..)).unwrap_or_default()
}

/// # Safety
/// `source` points to the structure for descriptors of the type, with live handles.
unsafe fn read(kind: vk::DescriptorType, source: *const c_void) -> Descriptor {
    use vk::DescriptorType as Kind;
    match kind {
        Kind::UNIFORM_BUFFER | Kind::STORAGE_BUFFER => {
            // SAFETY: this function's contract: that structure.
            let info = unsafe { source.cast::<vk::DescriptorBufferInfo>().read_unaligned() };
            Descriptor::Bytes(buffer_bytes(info.buffer).part(info.offset, info.range))
        }
        Kind::UNIFORM_TEXEL_BUFFER => {
            // SAFETY: this function's contract: that structure.
            let view = unsafe { source.cast::<vk::BufferView>().read_unaligned() };
            // SAFETY: this function's contract: a live view.
            unsafe { get::<BufferView>(raw(view)) }.map_or(Descriptor::None, |view| Descriptor::Bytes(view.0))
        }
        Kind::COMBINED_IMAGE_SAMPLER => {
            // SAFETY: this function's contract: that structure.
            let info = unsafe { source.cast::<vk::DescriptorImageInfo>().read_unaligned() };
            // SAFETY: this function's contract: a live sampler.
            unsafe { get::<Sampler>(raw(info.sampler)) }
                .map_or(Descriptor::None, |sampler| Descriptor::Picture(Surface::of_handle(info.image_view), sampler.0))
        }
        // No shader of the driver accesses the others.
        _ => Descriptor::None,
    }
}

const fn at(first: *const c_void, index: usize, stride: usize) -> *const c_void {
    first.wrapping_byte_add(index.wrapping_mul(stride))
}

fn write(write: &vk::WriteDescriptorSet<'_>) {
    use vk::DescriptorType as Kind;
    let (first, stride): (*const c_void, usize) = match write.descriptor_type {
        Kind::UNIFORM_TEXEL_BUFFER | Kind::STORAGE_TEXEL_BUFFER => {
            (write.p_texel_buffer_view.cast(), size_of::<vk::BufferView>())
        }
        Kind::UNIFORM_BUFFER | Kind::STORAGE_BUFFER => {
            (write.p_buffer_info.cast(), size_of::<vk::DescriptorBufferInfo>())
        }
        _ => (write.p_image_info.cast(), size_of::<vk::DescriptorImageInfo>()),
    };
    let to = slots(write.dst_set, write.dst_binding, write.dst_array_element);
    for (index, slot) in to.iter_mut().take(write.descriptor_count as usize).enumerate() {
        // SAFETY: valid usage: an array of the type's structures.
        slot.descriptor = unsafe { read(write.descriptor_type, at(first, index, stride)) };
    }
}

fn copy(copy: &vk::CopyDescriptorSet<'_>) {
    for index in 0..copy.descriptor_count as usize {
        let from = slots(copy.src_set, copy.src_binding, copy.src_array_element).get(index).copied();
        let to = slots(copy.dst_set, copy.dst_binding, copy.dst_array_element).get_mut(index);
        if let (Some(from), Some(to)) = (from, to) {
            to.descriptor = from.descriptor;
        }
    }
}

commands! {
    fn update_descriptor_sets(_device: vk::Device, writes: u32, write_infos: *const vk::WriteDescriptorSet<'_>, copies: u32, copy_infos: *const vk::CopyDescriptorSet<'_>) {
        // SAFETY: valid usage: so many writes.
        unsafe { slice(write_infos, writes) }.iter().for_each(write);
        // SAFETY: valid usage: so many copies.
        unsafe { slice(copy_infos, copies) }.iter().for_each(copy);
    }
    fn update_descriptor_set_with_template(_device: vk::Device, set: vk::DescriptorSet, template: vk::DescriptorUpdateTemplate as items ((), vk::DescriptorUpdateTemplateEntry), data: *const c_void) {
        for entry in template.1 {
            let to = slots(set, entry.dst_binding, entry.dst_array_element);
            for (index, slot) in to.iter_mut().take(entry.descriptor_count as usize).enumerate() {
                let source = at(at(data, 1, entry.offset), index, entry.stride);
                // SAFETY: valid usage: the type's structure.
                slot.descriptor = unsafe { read(entry.descriptor_type, source) };
            }
        }
    }
    fn get_descriptor_set_layout_support(_device: vk::Device, _info: *const vk::DescriptorSetLayoutCreateInfo<'_>, out: *mut vk::DescriptorSetLayoutSupport<'_> as write _) {
        out.supported = vk::TRUE;
    }
}
