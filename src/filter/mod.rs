//! The kinds of filter, one folder each: what it is, its sizes, its build, its probe, and
//! [`Kind`](trait@crate::kind::Kind) for it.
//!
//! A kind knows hashes and its own payload; it does not know the block that carries it.

pub(crate) mod batch;
pub mod binary_fuse;
pub mod blocked_bloom;
pub(crate) mod cache;
pub mod counting_bloom;
pub mod cuckoo;
pub(crate) mod dynamic;
pub(crate) mod fingerprint;
pub(crate) mod kind;
pub(crate) mod peel;
mod power;
pub mod register_blocked_bloom;
pub mod ribbon;
pub(crate) mod shrink;
mod single;
pub mod standard_bloom;
pub mod xor;
pub mod xor_plus;

use core::any::TypeId;

pub(crate) use kind::{
    BuildFailure, BuildResult, BuiltPayload, EncodedShape, FilterShape, Kind, ParamWords, ShapeFields,
    probe_one_by_one, require,
};
pub(crate) use power::power;
pub(crate) use single::{OpenFilter, ProbedSingly, probe_shape};

pub(crate) use crate::ids::FilterKind;
use crate::ids::for_each_kind;

/// Whether a kind is one of the library's. The kind itself is compared, not its shape: a user's kind may wrap a shape
/// of the library's, and is no more to be trusted for it.
pub(crate) fn is_of_library<K: Kind>() -> bool {
    macro_rules! is_any {
        ($($number:literal $constant:ident $name:literal $constructor:ident $folder:ident::$kind:ident $what:literal)+) => {
            [$(TypeId::of::<$folder::$kind>()),+].contains(&TypeId::of::<K>())
        };
    }
    // Unit tests damage filters of the library through a kind of this name.
    let damages_for_tests = cfg!(test) && K::NAME == "damaged";
    damages_for_tests || for_each_kind!(is_any)
}
