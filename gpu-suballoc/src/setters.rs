//! Builder methods that set one field.

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
