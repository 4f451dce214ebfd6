//! The defects that a test can plant, one at a time.

#![forbid(unsafe_code)]

use core::fmt;

use vk_callbacks::check::FindingKind;

macro_rules! defects {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// A mistake of the fake driver, its application or a layer between them: one for each [`FindingKind`], with
        /// the same name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Defect {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Defect {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The kind of finding that it causes.
            #[must_use]
            pub const fn finding(self) -> FindingKind {
                match self {
                    $(Self::$name => FindingKind::$name,)*
                }
            }
        }
    };
}

defects! {
    /// The application offers a struct without `pfnAllocation`.
    MissingAllocation,
    /// The application offers a struct without `pfnReallocation`.
    MissingReallocation,
    /// The application offers a struct without `pfnFree`.
    MissingFree,
    /// The application offers a struct with one of the two notifications.
    HalfInternal,
    /// The driver passes unknown user data.
    UnknownUserData,
    /// A layer passes a buffer's struct for an image.
    OutsideChain,
    /// The driver keeps the address of the struct instead of the struct.
    OldStructUsed,
    /// The driver requests an alignment of 24.
    BadAlignment,
    /// The driver requests 0 bytes, which is legal.
    SizeZero,
    /// The application's allocator ignores a large alignment.
    MisalignedAnswer,
    /// The application's allocator returns a live block a second time.
    LiveBlockGivenAgain,
    /// The driver returns out of host memory, though no request was refused.
    OutOfMemoryWithoutNull,
    /// The driver's request is refused, and it returns another error.
    OtherErrorAfterNull,
    /// The driver reallocates a pointer into a block.
    ReallocatedUnknown,
    /// The driver reallocates a freed block.
    ReallocatedFreed,
    /// The driver reallocates the device's memory through a buffer's callbacks.
    ReallocatedThroughOther,
    /// The application's allocator answers a reallocation to size 0 with a block.
    ZeroAnswered,
    /// The driver reallocates with another alignment.
    OtherAlignment,
    /// The application's allocator frees the old block though the reallocation failed, and returns it for the next
    /// request.
    OldBlockGivenAway,
    /// The driver frees NULL, which is legal.
    NullFree,
    /// The driver frees a pointer into a block.
    FreedUnknown,
    /// The driver frees a block twice.
    FreedTwice,
    /// The driver frees a block on one thread while it reallocates it on another.
    FreedInTransit,
    /// The driver frees the device's memory through a buffer's callbacks.
    FreedThroughOther,
    /// The driver notifies an unknown type.
    InternalType,
    /// The driver notifies more freed executable memory than allocated.
    InternalNegative,
    /// The driver never notifies the free of its executable memory.
    InternalLeft,
    /// The application never reports the destruction of a fence with notified executable memory.
    InternalAtEnd,
    /// The driver notifies between commands.
    NotifiedBetweenCommands,
    /// The driver notifies on a thread of its own.
    NotifiedOnForeignThread,
    /// The driver requests memory between commands.
    AskedBetweenCommands,
    /// The driver frees between commands.
    FreedBetweenCommands,
    /// The driver requests memory on a thread of its own.
    AskedOnForeignThread,
    /// The driver frees on a thread of its own.
    FreedOnForeignThread,
    /// The application's allocator calls a command.
    CommandInCallback,
    /// Deferred work of the driver calls the callbacks of neither operation.
    OutsideDeferred,
    /// The driver keeps a block of scope command.
    CommandBlockLeft,
    /// The driver requests a command's memory from the device's callbacks, though the object has its own.
    CommandLessSpecific,
    /// The driver requests a cache's memory from the device's callbacks, though the cache has its own.
    CacheElsewhere,
    /// The driver requests a cache's memory with scope object.
    CacheAsObject,
    /// The driver requests an object's memory from the device's callbacks, though the object has its own.
    ObjectLessSpecific,
    /// The driver reallocates with another scope.
    OtherScope,
    /// The driver requests the device's memory from the instance's callbacks, though the device has its own.
    DeviceLessSpecific,
    /// The driver requests the device's memory from an object's callbacks.
    DeviceTooSpecific,
    /// The driver requests the instance's memory from the device's callbacks.
    InstanceElsewhere,
    /// The driver requests a descriptor set's memory from the device's callbacks, though the pool has its own.
    PoolPassedOver,
    /// The driver keeps descriptor sets in memory past the callbacks.
    PoolNeverAsked,
    /// The driver requests an invalid scope.
    BadScope,
    /// The driver allocates memory of scope device while it creates an object, which is legal.
    DeviceScopeInCreate,
    /// The driver allocates memory of scope cache in a command without a cache.
    CacheScopeElsewhere,
    /// The driver calls a descriptor pool's callbacks in a command that is not on the pool.
    DescriptorPoolElsewhere,
    /// The driver calls a command pool's callbacks in a command that is not on the pool.
    CommandPoolElsewhere,
    /// The driver allocates memory for an object in a command that does not create it.
    ObjectOutsideCreate,
    /// The driver forgets a part of a destroyed object.
    LiveAfterDestroy,
    /// The driver frees an object's memory in a command that does not destroy it.
    FreedInOtherCommand,
    /// The application never destroys a fence.
    LiveAtEnd,
    /// The application destroys an object with callbacks of another heap.
    OtherGroupAtDestroy,
    /// The application forgets the callbacks of an object when it destroys it.
    NoneAtDestroy,
    /// The application destroys an object with callbacks though it was created without.
    OnlyAtDestroy,
    /// The application destroys an object twice.
    UnknownHandle,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.finding().name())
    }
}
