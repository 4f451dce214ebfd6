//! Several typed arrays in one block: one allocation, one refusal to handle, one free.
//!
//! ```text
//!  block                                                            layout.size()
//!   | a: [A; n] | gap | b: [B; m] | c: [] takes nothing | gap | d: [D; k] |
//!   ^ aligned to the largest alignment of all
//! ```

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{HostError, Scope};

use super::block::{DriverBlock, Stored};
use super::fallback_chain::FallbackChain;
use crate::error::CallbackError;

/// A plan of arrays in one block. There is no limit on their number.
///
/// ```
/// # use alloc_core::{FromGlobalAlloc, Scope};
/// # use vk_callbacks::{FallbackChain, MultiAlloc};
/// # static OWN: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// # let chain = FallbackChain::new(&OWN);
/// let mut plan = MultiAlloc::new();
/// let handles = plan.array::<u64>(3)?;
/// let flags = plan.array::<u8>(5)?;
/// let none = plan.array::<u32>(0)?;
/// let mut block = plan.allocate_zeroed(&chain, Scope::Object)?;
/// assert_eq!(block.get(handles).map(|p| p.len()), Some(3));
/// assert!(block.get(none).is_none(), "an array without a byte is NULL");
/// for flag in block.slice_mut(flags) {
///     flag.write(1);
/// }
/// # Ok::<(), vk_callbacks::CallbackError>(())
/// ```
#[derive(Debug)]
#[doc(alias("vk_multialloc"))]
pub struct MultiAlloc {
    layout: Layout,
    plan: PlanId,
}

/// An array of a plan; valid for the block of that plan only.
#[derive(Debug)]
pub struct Member<T> {
    offset: usize,
    len: usize,
    plan: PlanId,
    of: PhantomData<fn() -> T>,
}

/// The block of a plan. Dropping it frees the whole.
#[derive(Debug)]
#[must_use = "dropping a block gives it back"]
pub struct MultiBlock<'a> {
    block: DriverBlock<'a>,
    plan: PlanId,
}

impl MultiAlloc {
    /// An empty plan.
    #[must_use]
    pub fn new() -> Self {
        Self { layout: Layout::new::<()>(), plan: PlanId::fresh() }
    }

    /// Adds `[T; len]`. Arrays are in the order of their addition, each at its own alignment.
    ///
    /// # Errors
    /// [`HostError::TooLarge`] if the array or the whole exceeds `isize::MAX` bytes; the plan is unchanged.
    pub fn array<T>(&mut self, len: usize) -> Result<Member<T>, CallbackError> {
        const TOO_LARGE: CallbackError = CallbackError::Host(HostError::TooLarge);
        let array = Layout::array::<T>(len).map_err(|_| TOO_LARGE)?;
        if array.size() == 0 {
            return Ok(Member { offset: 0, len: 0, plan: self.plan, of: PhantomData });
        }
        let (layout, offset) = self.layout.extend(array).map_err(|_| TOO_LARGE)?;
        self.layout = layout;
        Ok(Member { offset, len, plan: self.plan, of: PhantomData })
    }

    /// The layout of the block.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Allocates the block; its content is undefined.
    ///
    /// # Errors
    /// [`CallbackError::EmptySet`] if no array has a byte; [`CallbackError::Host`] if there is no memory.
    pub fn allocate<'a>(self, chain: &FallbackChain<'a>, scope: Scope) -> Result<MultiBlock<'a>, CallbackError> {
        self.allocate_block(chain, scope, false)
    }

    /// As [`allocate`](Self::allocate), filled with zeros.
    pub fn allocate_zeroed<'a>(self, chain: &FallbackChain<'a>, scope: Scope) -> Result<MultiBlock<'a>, CallbackError> {
        self.allocate_block(chain, scope, true)
    }

    fn allocate_block<'a>(
        self,
        chain: &FallbackChain<'a>,
        scope: Scope,
        zeroed: bool,
    ) -> Result<MultiBlock<'a>, CallbackError> {
        if self.layout.size() == 0 {
            return Err(CallbackError::EmptySet);
        }
        let block = DriverBlock::allocate(chain.resolve(scope), self.layout, scope, zeroed)?;
        Ok(MultiBlock { block, plan: self.plan })
    }
}

impl Default for MultiAlloc {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> MultiBlock<'a> {
    /// The address of an array, to store in the object; `None` if it has no byte (NULL in Vulkan and Mesa), or is of
    /// another plan.
    #[must_use]
    pub fn get<T>(&self, member: Member<T>) -> Option<NonNull<[T]>> {
        let end = member.len.checked_mul(size_of::<T>())?.checked_add(member.offset)?;
        // The numbers of plans wrap after 2^32 on a small machine; the bounds hold even then.
        if member.plan != self.plan
            || member.len == 0
            || end > self.block.layout().size()
            || align_of::<T>() > self.block.layout().align()
        {
            return None;
        }
        // SAFETY: the member ends within the block, as just seen.
        let first = unsafe { self.block.as_ptr().add(member.offset) };
        first
            .as_ptr()
            .addr()
            .is_multiple_of(align_of::<T>())
            .then(|| NonNull::slice_from_raw_parts(first.cast(), member.len))
    }

    /// An array to fill; empty if it has no byte, or is of another plan.
    #[must_use]
    pub fn slice_mut<T>(&mut self, member: Member<T>) -> &mut [MaybeUninit<T>] {
        match self.get(member) {
            // SAFETY: `get` returns aligned memory of this block for `len` values; the borrow is exclusive.
            Some(array) => unsafe { slice::from_raw_parts_mut(array.as_ptr().cast(), array.len()) },
            None => &mut [],
        }
    }

    /// The block itself.
    pub const fn block(&self) -> &DriverBlock<'a> {
        &self.block
    }

    /// Keeps the whole beyond the command: one receipt for all arrays.
    pub fn store(self) -> Stored {
        self.block.store()
    }
}

impl<T> Clone for Member<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Member<T> {}

/// A member of one plan must not be looked up in the block of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlanId(NonZeroUsize);

impl PlanId {
    fn fresh() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self(NonZeroUsize::new(NEXT.fetch_add(1, Relaxed)).unwrap_or(NonZeroUsize::MIN))
    }
}
