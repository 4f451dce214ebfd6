use std::ffi::c_void;

use crate::chain::slice_of;

#[repr(C)]
pub(super) struct BindSparseInfo {
    s_type: i32,
    p_next: *const c_void,
    wait_count: u32,
    waits: *const u64,
    buffers: Array<ResourceBinds<MemoryBind>>,
    opaque_images: Array<ResourceBinds<MemoryBind>>,
    images: Array<ResourceBinds<ImageBind>>,
    signal_count: u32,
    signals: *const u64,
}

#[repr(C)]
struct Array<T> {
    count: u32,
    first: *const T,
}

#[repr(C)]
struct ResourceBinds<T> {
    resource: u64,
    binds: Array<T>,
}

#[repr(C)]
struct MemoryBind {
    place: [u64; 2],
    memory: u64,
    memory_offset: u64,
    flags: u32,
}

#[repr(C)]
struct ImageBind {
    place: [u32; 9],
    memory: u64,
    memory_offset: u64,
    flags: u32,
}

impl<T> Array<T> {
    /// # Safety
    /// The array is NULL or has `count` elements.
    unsafe fn all(&self) -> &[T] {
        // SAFETY: NULL, or `count` elements that live as long as the struct.
        unsafe { slice_of(self.first, self.count) }
    }
}

impl BindSparseInfo {
    /// # Safety
    /// The info is valid.
    pub(super) unsafe fn each_memory(&self, mut see: impl FnMut(u64)) {
        for of_kind in [&self.buffers, &self.opaque_images] {
            // SAFETY: its arrays are NULL or as long as they say.
            for resource in unsafe { of_kind.all() } {
                // SAFETY: its arrays are NULL or as long as they say.
                let binds = unsafe { resource.binds.all() };
                binds.iter().for_each(|bind| see(bind.memory));
            }
        }
        // SAFETY: its arrays are NULL or as long as they say.
        for resource in unsafe { self.images.all() } {
            // SAFETY: its arrays are NULL or as long as they say.
            let binds = unsafe { resource.binds.all() };
            binds.iter().for_each(|bind| see(bind.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};
    use std::ptr;

    use super::{Array, BindSparseInfo, ImageBind, MemoryBind, ResourceBinds};
    use crate::hooks::memory::MemoryCommand;

    #[test]
    fn ly20_what_is_bound_sparsely_is_seen_in_each_of_three_places() {
        let seen_as_bind = MemoryCommand::of("vkQueueBindSparse");
        assert!(seen_as_bind == Some(MemoryCommand::BindSparse));
        assert_eq!((size_of::<MemoryBind>(), size_of::<ImageBind>()), (40, 64));
        assert_eq!(size_of::<BindSparseInfo>(), 96);
        assert_eq!(offset_of!(BindSparseInfo, images), 64);
        let memory_bind = |memory| MemoryBind { place: [0, 64], memory, memory_offset: 0, flags: 0 };
        let of_buffer = [memory_bind(1), memory_bind(0)];
        let of_opaque = [memory_bind(2)];
        let of_image = [ImageBind { place: [0; 9], memory: 3, memory_offset: 0, flags: 0 }];
        fn many<T>(all: &[T]) -> Array<T> {
            Array { count: all.len() as u32, first: all.as_ptr() }
        }
        fn binds<T>(all: &[T]) -> [ResourceBinds<T>; 1] {
            [ResourceBinds { resource: 9, binds: many(all) }]
        }
        let (buffers, opaque, images) = (binds(&of_buffer), binds(&of_opaque), binds(&of_image));
        let mut info = BindSparseInfo {
            s_type: 7,
            p_next: ptr::null(),
            wait_count: 0,
            waits: ptr::null(),
            buffers: many(&buffers),
            opaque_images: many(&opaque),
            images: many(&images),
            signal_count: 0,
            signals: ptr::null(),
        };
        let seen = |info: &BindSparseInfo| {
            let mut seen = Vec::new();
            // SAFETY: numbers and pointers of what is here.
            unsafe { info.each_memory(|memory| seen.push(memory)) };
            seen
        };
        assert_eq!(seen(&info), [1, 0, 2, 3]);
        info.buffers.first = ptr::null();
        assert_eq!(seen(&info), [2, 3]);
    }
}
