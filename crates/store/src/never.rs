//! Makes the empty types that stand for those of packages which are not compiled in. The compiler leaves out what would
//! use them.

/// Defines such types, with the methods that the store calls.
macro_rules! without_values {
    ($($name:ident { $(fn $method:ident($($argument:ty),*) $(-> $returned:ty)?;)* })+) => {
        $(
            #[derive(Clone, Debug)]
            pub(crate) struct $name(core::convert::Infallible);

            impl $name {
                $(pub(crate) fn $method(&self $(, _: $argument)*) $(-> $returned)? {
                    match self.0 {}
                })*
            }
        )+
    };
}

pub(crate) use without_values;
