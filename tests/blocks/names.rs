//! Names and numbers that filters and policies report. The failure guarded against: one of them changes, and logs,
//! dashboards or stored blocks mean something else.

use sstfilter::kind::RibbonKind;
use sstfilter::{
    AutoPolicy, BitsPerKey, DelimitedPrefix, FallbackReason, FilterPolicy, FixedPolicy, FixedPrefix, KeyExtractor,
    KindId,
};

#[test]
fn every_kind_has_the_number_and_the_name_that_the_format_gives_it() {
    let kinds = [
        (KindId::BLOCKED_BLOOM, "bloom"),
        (KindId::RIBBON, "ribbon"),
        (KindId::STANDARD_BLOOM, "standard-bloom"),
        (KindId::COUNTING_BLOOM, "counting-bloom"),
        (KindId::REGISTER_BLOCKED_BLOOM, "register-blocked-bloom"),
        (KindId::CUCKOO, "cuckoo"),
        (KindId::XOR, "xor"),
        (KindId::XOR_PLUS, "xor+"),
        (KindId::BINARY_FUSE, "binary-fuse"),
        (KindId::LINE_RIBBON, "line-ribbon"),
    ];
    for (kind, name) in kinds {
        assert_eq!((kind.name(), kind.to_string().as_str()), (name, name));
        assert_eq!(format!("{kind:?}"), format!("KindId({}, {name})", kind.code()));
        assert!(KindId::from_code(kind.code()) == kind && !kind.is_user_defined());
    }
    for (code, name, is_user_defined) in
        [(127, "unknown", false), (128, "user-defined", true), (255, "user-defined", true)]
    {
        let kind = KindId::from_code(code);
        assert_eq!((kind.code(), kind.name(), kind.is_user_defined()), (code, name, is_user_defined));
    }
}

#[test]
fn every_fallback_reason_is_read_from_its_number_and_says_what_it_is() {
    let words = [
        "as requested",
        "too few keys",
        "not smaller",
        "too many keys",
        "memory budget",
        "construction failed",
        "self-check failed",
    ];
    for (code, words) in (0..).zip(words) {
        let reason = FallbackReason::from_code(code).unwrap();
        assert_eq!((reason.code(), reason.as_str(), reason.to_string().as_str()), (code, words, words));
    }
    assert_eq!(FallbackReason::from_code(7), None);
}

#[test]
fn policies_and_extractors_have_the_names_that_options_and_tables_show() {
    assert_eq!(FixedPolicy::default().name(), "bloom");
    assert_eq!(FixedPolicy::from(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN).unwrap()).name(), "ribbon");
    assert_eq!(AutoPolicy::new(BitsPerKey::TEN).unwrap().name(), "auto");
    assert_eq!(FixedPrefix::new(3).name(), "fixed-prefix:3");
    assert_eq!(DelimitedPrefix::new(b'/').name(), "prefix-to-byte:0x2f");
}
