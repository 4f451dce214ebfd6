//! The name and the words that a user gives a region, in a block of their own, for those who do.
//!
//! ```text
//!   +-----+------+--------+----------------+
//!   | tag | site | length | bytes of the name ..
//!   +-----+------+--------+----------------+
//! ```

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::support::floor_char_boundary;
use alloc_core::{HostAllocator, Scope};

use crate::error::GpuError;
use crate::request::RegionOptions;

/// The longest name that is kept.
pub(crate) const MAX_NAME: usize = 255;

#[repr(C)]
#[derive(Clone, Copy)]
struct DetailHeader {
    tag: u64,
    site: u64,
    length: u8,
}

/// Owns its block; [`RegionDetail::free`] gives it back.
pub(super) struct RegionDetail(NonNull<DetailHeader>);

// SAFETY: the block is plain bytes that nothing else refers to.
unsafe impl Send for RegionDetail {}

impl RegionDetail {
    /// `None` when there is nothing to keep.
    pub(super) fn new(
        memory: &dyn HostAllocator,
        options: &RegionOptions<'_>,
    ) -> Result<Option<Self>, GpuError> {
        let name = options.name.map_or(&[][..], str::as_bytes);
        if name.is_empty() && options.tag == 0 && options.site == 0 {
            return Ok(None);
        }
        let length = cut(options.name.unwrap_or_default());
        let layout = layout(length);
        let block = memory
            .allocate(layout, Scope::Object)
            .map_err(|_| GpuError::Host(memory.refusal(layout, Scope::Object)))?;
        let header = block.cast::<DetailHeader>();
        // SAFETY: the block was just given for a header and `length` bytes behind it, aligned for a header.
        unsafe {
            header.write(DetailHeader {
                tag: options.tag,
                site: options.site,
                length,
            })
        };
        // SAFETY: one past the header is still within the block, or its end.
        let bytes = unsafe { header.add(1) }.cast::<u8>();
        // SAFETY: `length` bytes of `name` are readable (`cut`), as many behind the header are writable, in a block of our own.
        unsafe {
            bytes
                .as_ptr()
                .copy_from_nonoverlapping(name.as_ptr(), usize::from(length))
        };
        Ok(Some(Self(header)))
    }

    fn header(&self) -> &DetailHeader {
        // SAFETY: the block is live and written for as long as `self` is, and nothing changes it.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn tag(&self) -> u64 {
        self.header().tag
    }

    pub(super) fn site(&self) -> u64 {
        self.header().site
    }

    pub(super) fn name(&self) -> &[u8] {
        let length = usize::from(self.header().length);
        // SAFETY: one past the header is still within the block, or its end.
        let bytes = unsafe { self.0.add(1) }.cast::<u8>();
        // SAFETY: `length` bytes were written there by `new`, and nothing changes them.
        unsafe { core::slice::from_raw_parts(bytes.as_ptr(), length) }
    }

    /// Gives the block back, outside of every lock.
    pub(super) fn free(self, memory: &dyn HostAllocator) {
        let layout = layout(self.header().length);
        // SAFETY: taken in `new` with this layout and scope from the one allocator that is passed here; `self` ends.
        unsafe { memory.deallocate(self.0.cast(), layout, Scope::Object) };
    }
}

/// How many bytes of a name are kept: whole characters.
fn cut(name: &str) -> u8 {
    let end = floor_char_boundary(name, MAX_NAME);
    u8::try_from(end).unwrap_or(0)
}

fn layout(length: u8) -> Layout {
    let header = Layout::new::<DetailHeader>();
    // 24 + 255 bytes at alignment 8 are no overflow; were they, the header alone would be asked for and no byte copied.
    Layout::from_size_align(header.size() + usize::from(length), header.align()).unwrap_or(header)
}

#[cfg(test)]
mod tests {
    use alloc_core::FromGlobalAlloc;

    use super::{RegionDetail, RegionOptions, cut};

    #[test]
    fn a_name_comes_back_and_a_long_one_is_cut_between_characters() {
        let memory = FromGlobalAlloc::SYSTEM;
        let options = RegionOptions::new().name("vertices").tag(7).site(9);
        let detail = RegionDetail::new(&memory, &options).unwrap().unwrap();
        assert_eq!(
            (detail.tag(), detail.site(), detail.name()),
            (7, 9, &b"vertices"[..])
        );
        detail.free(&memory);
        assert!(
            RegionDetail::new(&memory, &RegionOptions::new())
                .unwrap()
                .is_none()
        );
        let long = "ä".repeat(200);
        assert_eq!(cut(&long), 254);
        let detail = RegionDetail::new(&memory, &RegionOptions::new().name(&long))
            .unwrap()
            .unwrap();
        assert_eq!(core::str::from_utf8(detail.name()), Ok(&long[..254]));
        detail.free(&memory);
    }
}
