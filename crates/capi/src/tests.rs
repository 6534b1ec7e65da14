//! The structures have the layouts of the header.

use std::fmt::Write;
use std::fs;
use std::mem::offset_of;
use std::path::Path;

use super::{block, builder, call, filter, policy, set};

/// The C file that states the layouts of the structures, on 64-bit platforms.
macro_rules! layouts {
    ($($name:literal: $rust:ty { $($field:ident),+ })+) => {{
        let mut text = String::from("/* Written by src/tests.rs: the layouts that the library has. */\n");
        text += "#include \"sstfilter.h\"\n\n#ifndef __cplusplus\n#define static_assert _Static_assert\n#endif\n";
        text += "#if UINTPTR_MAX > 0xffffffff\n";
        $(
            writeln!(text, "static_assert(sizeof({}) == {}, \"\");", $name, size_of::<$rust>()).unwrap();
            $(writeln!(
                text, "static_assert(offsetof({}, {}) == {}, \"\");", $name, stringify!($field), offset_of!($rust, $field)
            ).unwrap();)+
        )+
        text + "#endif\n"
    }};
}

#[test]
fn objects_can_be_shared_by_threads_and_builders_can_move() {
    fn is_shared<T: Send + Sync>() {}
    fn can_move<T: Send>() {}
    is_shared::<policy::Policy>();
    is_shared::<filter::Filter>();
    is_shared::<set::Set>();
    can_move::<builder::Builder>();
}

#[test]
#[cfg(target_pointer_width = "64")]
fn structures_have_the_layouts_that_c_checks() {
    let text = layouts! {
        "sstf_error": call::ErrorText { status, message }
        "sstf_options": policy::Options {
            struct_size, kind, false_positive_rate, bits_per_key, seed, hash_tag, longest_range, seed_is_secret,
            prefix_bytes, only_prefixes, integer_bytes, granularity_bits, reserved
        }
        "sstf_info": block::Info { struct_size, keys, block_bytes, expected_fpr, file_id, kind, requested }
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layout.h");
    if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
        fs::write(path, text).unwrap();
        panic!("tests/layout.h was out of date, and is written again");
    }
}
