//! Functions of floating-point numbers that `core` lacks.
//!
//! Sizes of filters depend only on those that are exact, so that they are the same on every platform.

#[cfg(not(any(feature = "std", feature = "libm")))]
compile_error!("without the feature `std`, the feature `libm` is needed");

macro_rules! functions {
    ($($name:ident: $method:ident),+) => {$(
        pub(crate) fn $name(number: f64) -> f64 {
            #[cfg(feature = "std")]
            return number.$method();
            #[cfg(all(not(feature = "std"), feature = "libm"))]
            return libm::$name(number);
        }
    )+};
}

functions!(ceil: ceil, round: round, sqrt: sqrt);
