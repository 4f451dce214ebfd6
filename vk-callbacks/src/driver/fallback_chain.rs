//! The most specific allocator of a request (Vulkan specification, *Host Memory*):
//!
//! | scope | order of allocators | row |
//! |---|---|---|
//! | command, object | object, device, instance, the driver's own | V28, V30 |
//! | cache | the cache's (if the command has one beside its object) or the object's, device, instance, the driver's own | V29 |
//! | device | device, instance, the driver's own | V31 |
//! | instance | instance, the driver's own | V32 |

#![forbid(unsafe_code)]

use core::alloc::Layout;
use core::fmt;

use alloc_core::{HostAllocator, Scope};

use super::block::DriverBlock;
use crate::error::{CallbackError, Level};

/// Any allocator that threads may share, for as long as `'h`.
pub type DynHost<'h> = dyn HostAllocator + Sync + 'h;

/// An allocator of one level of a [`FallbackChain`], or none.
///
/// Converted from an `Option` of [`CallbackAllocator`](super::CallbackAllocator), by reference or by its `as_ref()`, or
/// from an `Option<&A>` of any allocator. A literal `None` has no type: use [`NONE`](Self::NONE).
///
/// ```
/// # use alloc_core::FromGlobalAlloc;
/// # use vk_callbacks::{CallbackAllocator, FallbackChain};
/// static DRIVERS_OWN: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// // SAFETY: no callbacks were given.
/// let of_device = unsafe { CallbackAllocator::from_ptr(std::ptr::null()) }?;
/// let chain = FallbackChain::new(&DRIVERS_OWN).device(&of_device).object(Some(&DRIVERS_OWN));
/// # let _ = chain.device(of_device.as_ref());
/// # Ok::<(), vk_callbacks::CallbackError>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct LevelAllocator<'a>(Option<&'a DynHost<'a>>);

impl LevelAllocator<'_> {
    /// No allocator: the level's `pAllocator` was NULL.
    pub const NONE: Self = Self(None);
}

impl<'a, A: HostAllocator + Sync> From<Option<&'a A>> for LevelAllocator<'a> {
    fn from(allocator: Option<&'a A>) -> Self {
        Self(allocator.map(|allocator| allocator as &DynHost<'_>))
    }
}

impl<'a, A: HostAllocator + Sync> From<&'a Option<A>> for LevelAllocator<'a> {
    fn from(allocator: &'a Option<A>) -> Self {
        allocator.as_ref().into()
    }
}

impl<'a> From<Option<&'a DynHost<'a>>> for LevelAllocator<'a> {
    fn from(allocator: Option<&'a DynHost<'a>>) -> Self {
        Self(allocator)
    }
}

impl fmt::Debug for LevelAllocator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "LevelAllocator" } else { "LevelAllocator::NONE" })
    }
}

/// The allocators of one command: two words a level.
#[derive(Clone, Copy)]
#[doc(alias("vk_alloc2", "vk_zalloc2"))]
pub struct FallbackChain<'a> {
    /// Outer `None`: the command has no cache beside its object. Inner: the cache was created without an allocator.
    cache: Option<Option<&'a DynHost<'a>>>,
    object: Option<&'a DynHost<'a>>,
    device: Option<&'a DynHost<'a>>,
    instance: Option<&'a DynHost<'a>>,
    default: &'a DynHost<'a>,
}

/// The allocator of a request, and its level.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ServedBlock<'a> {
    /// The allocator.
    pub allocator: &'a DynHost<'a>,
    /// Its level in the chain.
    pub level: Level,
}

impl<'a> FallbackChain<'a> {
    /// A chain of the driver's own allocator alone.
    #[must_use]
    pub const fn new(default: &'a DynHost<'a>) -> Self {
        Self { cache: None, object: None, device: None, instance: None, default }
    }

    /// With the `pAllocator` of `vkCreateInstance`.
    #[must_use]
    pub fn instance(mut self, allocator: impl Into<LevelAllocator<'a>>) -> Self {
        self.instance = allocator.into().0;
        self
    }

    /// With the `pAllocator` of `vkCreateDevice`.
    #[must_use]
    pub fn device(mut self, allocator: impl Into<LevelAllocator<'a>>) -> Self {
        self.device = allocator.into().0;
        self
    }

    /// With this command's `pAllocator`, or its pool's.
    #[must_use]
    pub fn object(mut self, allocator: impl Into<LevelAllocator<'a>>) -> Self {
        self.object = allocator.into().0;
        self
    }

    /// With the `pAllocator` of the pipeline or validation cache that the command gets; [`LevelAllocator::NONE`] if
    /// that was NULL. Memory of scope cache comes from there or from the device, never from the object's allocator: the
    /// cache may outlive the object.
    ///
    /// Not for a command that creates or destroys a cache, whose [`object`](Self::object) is the cache.
    #[must_use]
    pub fn cache(mut self, allocator: impl Into<LevelAllocator<'a>>) -> Self {
        self.cache = Some(allocator.into().0);
        self
    }

    /// The most specific allocator for `scope`.
    #[must_use]
    pub fn resolve(&self, scope: Scope) -> ServedBlock<'a> {
        let first = match scope {
            Scope::Cache if self.cache.is_some() => Level::Cache,
            Scope::Command | Scope::Object | Scope::Cache => Level::Object,
            Scope::Device => Level::Device,
            Scope::Instance => Level::Instance,
        };
        self.at(first)
            .or_else(|| {
                Level::ALL.iter().filter(|level| **level > first.max(Level::Object)).find_map(|level| self.at(*level))
            })
            .unwrap_or(ServedBlock { allocator: self.default, level: Level::Default })
    }

    /// The allocator at `level`, if there is one.
    #[must_use]
    pub fn at(&self, level: Level) -> Option<ServedBlock<'a>> {
        let allocator = match level {
            Level::Cache => self.cache.flatten(),
            Level::Object => self.object,
            Level::Device => self.device,
            Level::Instance => self.instance,
            Level::Default => Some(self.default),
        }?;
        Some(ServedBlock { allocator, level })
    }

    /// Allocates from the most specific allocator for `scope`. Dropping the block frees it there.
    ///
    /// # Errors
    /// [`CallbackError::Host`] with the reason of that allocator.
    pub fn allocate(&self, layout: Layout, scope: Scope) -> Result<DriverBlock<'a>, CallbackError> {
        DriverBlock::allocate(self.resolve(scope), layout, scope, false)
    }

    /// As [`allocate`](Self::allocate), filled with zeros.
    pub fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<DriverBlock<'a>, CallbackError> {
        DriverBlock::allocate(self.resolve(scope), layout, scope, true)
    }
}

impl fmt::Debug for FallbackChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Level::ALL.iter().filter(|level| self.at(**level).is_some())).finish()
    }
}

impl fmt::Debug for ServedBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Served({})", self.level)
    }
}
