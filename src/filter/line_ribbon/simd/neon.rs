//! NEON: the portable code, which the compiler turns into its vectors.

use super::functions_of_set;
use super::portable::Portable;

functions_of_set!(Portable, #[target_feature(enable = "neon")]);
