//! The signatures, for those who build on them; the bodies follow in the next commit.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::types::{Found, Given, Refusal, Span, Taken, Want};

#[derive(Debug)]
pub(crate) struct RangeCore(u64);
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lack(Layout);
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) block: NonNull<u8>,
    pub(crate) layout: Layout,
}
impl Lack {
    pub(crate) fn layout(self) -> Layout {
        self.0
    }
}
impl RangeCore {
    pub(crate) fn new(size: u64, _granule: u64, _generation_floor: u32) -> Result<Self, Refusal> {
        Ok(Self(size))
    }
    pub(crate) fn lacks(&self, _nodes: u32) -> Option<Lack> {
        None
    }
    pub(crate) unsafe fn supply(&mut self, lack: Lack, block: NonNull<u8>) -> Option<Memory> {
        Some(Memory { block, layout: lack.0 })
    }
    pub(crate) fn spare(&mut self) -> Option<Memory> {
        None
    }
    pub(crate) fn dismantle(&mut self) -> Option<Memory> {
        None
    }
    pub(crate) fn generation_ceiling(&self) -> u32 {
        1
    }
    pub(crate) fn take(&mut self, _want: &Want) -> Result<Taken, Refusal> {
        Err(Refusal::Full)
    }
    pub(crate) fn give(&mut self, _node: u32, _generation: u32) -> Result<Given, Refusal> {
        Err(Refusal::Stale)
    }
    pub(crate) fn take_batch(&mut self, _wants: &[Want], _out: &mut [Taken]) -> Result<(), (usize, Refusal)> {
        Err((0, Refusal::Full))
    }
    pub(crate) fn give_batch(&mut self, _ranges: &[(u32, u32)]) -> Result<bool, (usize, Refusal)> {
        Err((0, Refusal::Stale))
    }
    pub(crate) fn get(&self, _node: u32, _generation: u32) -> Result<Found, Refusal> {
        Err(Refusal::Stale)
    }
    pub(crate) fn set_word(&mut self, _node: u32, _generation: u32, _word: u32) -> Result<(), Refusal> {
        Err(Refusal::Stale)
    }
    pub(crate) fn hold(&mut self, _node: u32, _generation: u32) -> Result<u32, Refusal> {
        Err(Refusal::Stale)
    }
    pub(crate) fn release(&mut self, _node: u32, _generation: u32) -> Result<u32, Refusal> {
        Err(Refusal::Stale)
    }
    pub(crate) fn may_fit(&self, _size: u64) -> bool {
        true
    }
    pub(crate) fn size(&self) -> u64 {
        self.0
    }
    pub(crate) fn free(&self) -> u64 {
        self.0
    }
    pub(crate) fn used(&self) -> u64 {
        0
    }
    pub(crate) fn live(&self) -> u32 {
        0
    }
    pub(crate) fn holes(&self) -> u32 {
        0
    }
    pub(crate) fn is_empty(&self) -> bool {
        true
    }
    pub(crate) fn largest_free_bound(&self) -> u64 {
        self.0
    }
    pub(crate) fn largest_free(&self) -> u64 {
        self.0
    }
    pub(crate) fn for_each(&self, _see: &mut dyn FnMut(Span)) {}
}
