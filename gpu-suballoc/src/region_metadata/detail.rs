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
use crate::host_memory::HostBlock;
use crate::request::RegionOptions;

pub(crate) const MAX_NAME: usize = 255;

#[repr(C)]
#[derive(Clone, Copy)]
struct DetailHeader {
    tag: u64,
    site: u64,
    length: u8,
}

pub(super) struct RegionDetail(NonNull<DetailHeader>);

// SAFETY: nothing else refers to the block, which is plain bytes.
unsafe impl Send for RegionDetail {}

impl RegionDetail {
    pub(super) fn new(memory: &dyn HostAllocator, options: &RegionOptions<'_>) -> Result<Option<Self>, GpuError> {
        let name = options.name.map_or(&[][..], str::as_bytes);
        if name.is_empty() && options.tag == 0 && options.site == 0 {
            return Ok(None);
        }
        let length = cut(options.name.unwrap_or_default());
        let layout = layout(length);
        let block = HostBlock::allocate(memory, layout)?.into_start();
        let header = block.cast::<DetailHeader>();
        // SAFETY: the block has room for a header and `length` bytes, and is aligned for a header.
        unsafe { header.write(DetailHeader { tag: options.tag, site: options.site, length }) };
        // SAFETY: one past the header is still within the block, or its end.
        let bytes = unsafe { header.add(1) }.cast::<u8>();
        // SAFETY: `length` bytes of `name` are readable (`cut`), as many behind the header are writable.
        unsafe { bytes.as_ptr().copy_from_nonoverlapping(name.as_ptr(), usize::from(length)) };
        Ok(Some(Self(header)))
    }

    fn header(&self) -> &DetailHeader {
        // SAFETY: the block is live and written as long as `self`, and nothing changes it.
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

    /// It is called without a lock.
    pub(super) fn free(detail: Option<Self>, memory: &dyn HostAllocator) {
        if let Some(detail) = detail {
            let layout = layout(detail.header().length);
            // SAFETY: allocated in `new` with this layout and scope; `detail` ends.
            unsafe { memory.deallocate(detail.0.cast(), layout, Scope::Object) };
        }
    }
}

/// Whole characters are kept.
fn cut(name: &str) -> u8 {
    let end = floor_char_boundary(name, MAX_NAME);
    u8::try_from(end).unwrap_or(0)
}

fn layout(length: u8) -> Layout {
    let header = Layout::new::<DetailHeader>();
    // 24 + 255 bytes at alignment 8 do not overflow.
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
        assert_eq!((detail.tag(), detail.site(), detail.name()), (7, 9, &b"vertices"[..]));
        RegionDetail::free(Some(detail), &memory);
        assert!(RegionDetail::new(&memory, &RegionOptions::new()).unwrap().is_none());
        let long = "ä".repeat(200);
        assert_eq!(cut(&long), 254);
        let detail = RegionDetail::new(&memory, &RegionOptions::new().name(&long)).unwrap().unwrap();
        assert_eq!(core::str::from_utf8(detail.name()), Ok(&long[..254]));
        RegionDetail::free(Some(detail), &memory);
    }
}
