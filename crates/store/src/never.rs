//! Types without values, in place of those of packages that a store is compiled without. The compiler leaves out what
//! would use them.

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
