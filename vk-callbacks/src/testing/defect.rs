//! What can be planted, one at a time.

#![forbid(unsafe_code)]

use core::fmt;

use crate::check::FindingKind;

macro_rules! defects {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// A mistake of the fake driver, its application or a layer between them: one for each [`FindingKind`], and called like it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Defect {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Defect {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The one kind of finding that it must lead to.
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
    /// The driver passes user data that no struct had.
    UnknownUserData,
    /// A layer hands a buffer's struct on where the image's should be.
    OutsideChain,
    /// The driver keeps the address of the struct instead of the struct.
    OldStructUsed,
    /// The driver asks for an alignment of 24.
    BadAlignment,
    /// The driver asks for nothing, which is legal.
    SizeZero,
    /// The application's allocator ignores a large alignment.
    MisalignedAnswer,
    /// The application's allocator gives a live block a second time.
    LiveBlockGivenAgain,
    /// The driver says it is out of host memory though nobody refused it any.
    OutOfMemoryWithoutNull,
    /// The driver is refused memory, gives up, and says something else.
    OtherErrorAfterNull,
    /// The driver reallocates a pointer into a block.
    ReallocatedUnknown,
    /// The driver reallocates what it freed.
    ReallocatedFreed,
    /// The driver reallocates the device's memory through a buffer's callbacks.
    ReallocatedThroughOther,
    /// The application's allocator answers a reallocation to size 0 with a block.
    ZeroAnswered,
    /// The driver reallocates with another alignment.
    OtherAlignment,
    /// The application's allocator frees the old block though the reallocation failed, and gives it to the next.
    OldBlockGivenAway,
    /// The driver frees NULL, which is legal.
    NullFree,
    /// The driver frees a pointer into a block.
    FreedUnknown,
    /// The driver frees a block twice.
    FreedTwice,
    /// The driver frees on one thread what it reallocates on another.
    FreedInTransit,
    /// The driver frees the device's memory through a buffer's callbacks.
    FreedThroughOther,
    /// The driver notifies of a type that there is not.
    InternalType,
    /// The driver says it gave back more executable memory than it took.
    InternalNegative,
    /// The driver never says that it gave its executable memory back.
    InternalLeft,
    /// The application never says that it destroyed a fence, for which the driver has told of executable memory.
    InternalAtEnd,
    /// The driver notifies between commands.
    NotifiedBetweenCommands,
    /// The driver notifies on a thread of its own.
    NotifiedOnForeignThread,
    /// The driver asks for memory between commands.
    AskedBetweenCommands,
    /// The driver frees between commands.
    FreedBetweenCommands,
    /// The driver asks for memory on a thread of its own.
    AskedOnForeignThread,
    /// The driver frees on a thread of its own.
    FreedOnForeignThread,
    /// The application's allocator calls a command.
    CommandInCallback,
    /// The driver, doing deferred work, asks callbacks that neither operation was given.
    OutsideDeferred,
    /// The driver keeps a block of scope command.
    CommandBlockLeft,
    /// The driver asks the device's callbacks for a command's memory though the object has its own.
    CommandLessSpecific,
    /// The driver asks the device's callbacks for the memory of a cache that has its own.
    CacheElsewhere,
    /// The driver calls a cache's memory an object's.
    CacheAsObject,
    /// The driver asks the device's callbacks for the memory of an object that has its own.
    ObjectLessSpecific,
    /// The driver reallocates with another scope.
    OtherScope,
    /// The driver asks the instance's callbacks for the device's memory though the device has its own.
    DeviceLessSpecific,
    /// The driver asks an object's callbacks for the device's memory.
    DeviceTooSpecific,
    /// The driver asks the device's callbacks for the instance's memory.
    InstanceElsewhere,
    /// The driver asks the device's callbacks for the memory of a descriptor set, though its pool has its own.
    PoolPassedOver,
    /// The driver keeps descriptor sets in memory that no callbacks gave.
    PoolNeverAsked,
    /// The driver asks for a scope that there is not.
    BadScope,
    /// The driver takes the device's memory while it makes an object, which is legal.
    DeviceScopeInCreate,
    /// The driver takes memory of scope cache in a command that has no cache.
    CacheScopeElsewhere,
    /// The driver asks a descriptor pool's callbacks in a command that is not about the pool.
    DescriptorPoolElsewhere,
    /// The driver asks a command pool's callbacks in a command that is not about the pool.
    CommandPoolElsewhere,
    /// The driver takes memory for an object in a command that does not make it.
    ObjectOutsideCreate,
    /// The driver forgets a part of an object that is destroyed.
    LiveAfterDestroy,
    /// The driver gives an object's memory back in a command that does not end it.
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
