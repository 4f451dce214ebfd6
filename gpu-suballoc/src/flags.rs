/// Unknown bits are kept and take part in every comparison.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident($word:ty) { $($(#[$bit_doc:meta])* $bit:ident = $place:literal;)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name($word);

        impl $name {
            /// No bit.
            pub const NONE: Self = Self(0);
            $($(#[$bit_doc])* pub const $bit: Self = Self(1 << $place);)*

            /// Every bit of `other` is set here.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            #[allow(dead_code, reason = "one macro for all sets")]
            pub(crate) const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The bits set here but not in `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// No bit is set.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            #[allow(dead_code, reason = "one macro for all sets")]
            pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
                [$((Self::$bit, stringify!($bit))),*]
                    .into_iter()
                    .filter(move |(flag, _)| self.contains(*flag))
                    .map(|(_, name)| name)
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl core::ops::BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                if self.is_empty() {
                    return f.write_str("none");
                }
                let mut separator = "";
                for name in self.names() {
                    write!(f, "{separator}{name}")?;
                    separator = " | ";
                }
                let unknown = self.without(Self($(1 << $place |)* 0));
                if unknown.is_empty() {
                    return Ok(());
                }
                write!(f, "{separator}{:#x}", unknown.0)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }
    )*};
}

macro_rules! vulkan_masks {
    ($($name:ident)*) => {$(
        impl $name {
            /// From Vulkan's mask.
            #[must_use]
            pub const fn from_raw(raw: u32) -> Self {
                Self(raw)
            }

            /// Vulkan's mask.
            #[must_use]
            pub const fn as_raw(self) -> u32 {
                self.0
            }
        }
    )*};
}

pub(crate) use {flags, vulkan_masks};

/// Builder methods of the fields' names: `set` takes the value, `some` the value of an `Option`, and `on` sets a flag.
macro_rules! setters {
    (
        $(set { $($set:ident: $set_type:ty,)* })?
        $(some { $($some:ident: $some_type:ty,)* })?
        $(on { $($flag:ident,)* })?
    ) => {
        $($(
            #[doc = concat!("Sets [`", stringify!($set), "`](field@Self::", stringify!($set), ").")]
            #[must_use]
            pub const fn $set(self, $set: $set_type) -> Self {
                Self { $set, ..self }
            }
        )*)?
        $($(
            #[doc = concat!("Sets [`", stringify!($some), "`](field@Self::", stringify!($some), ").")]
            #[must_use]
            pub const fn $some(self, $some: $some_type) -> Self {
                Self { $some: Some($some), ..self }
            }
        )*)?
        $($(
            #[doc = concat!("Switches [`", stringify!($flag), "`](field@Self::", stringify!($flag), ") on.")]
            #[must_use]
            pub const fn $flag(self) -> Self {
                Self { $flag: true, ..self }
            }
        )*)?
    };
}

pub(crate) use setters;

/// `Debug` of what is told of a type, some of whose fields have none.
macro_rules! debug_fields {
    ([$($generics:tt)*] $type:ty, $name:literal, |$this:ident| $($field:ident = $value:expr),*) => {
        impl<$($generics)*> core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let $this = self;
                f.debug_struct($name)
                    $(.field(stringify!($field), &$value))*
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug_fields;
