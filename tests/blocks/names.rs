//! Names and numbers that filters and policies report. The failure guarded against: one of them changes, and logs,
//! dashboards or stored blocks mean something else.

use bytes::Bytes;
use sstfilter::kind::RibbonKind;
use sstfilter::{
    AutoPolicy, BitsPerKey, CountingBloom, CuckooFilter, DelimitedPrefix, DynamicFilter, FallbackReason,
    FalsePositiveRate, FilterBlock, FilterPolicy, FixedPolicy, FixedPrefix, HashIdentity, KeyExtractor, KindId,
};

use crate::common::key_set;

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

#[test]
fn the_block_of_a_filter_that_changes_is_as_full_as_the_filter() {
    let fill_of = |block: Bytes| FilterBlock::open_unverified(block).unwrap().fill_ratio().unwrap();
    let mut counting = CountingBloom::for_size(HashIdentity::default(), 1_000, BitsPerKey::TEN).unwrap();
    let mut cuckoo = CuckooFilter::for_rate(HashIdentity::default(), 1_000, FalsePositiveRate::ONE_PERCENT).unwrap();
    for hash in key_set(0, 1_000) {
        counting.insert(hash);
        cuckoo.insert(hash).unwrap();
    }
    let (of_counting, of_cuckoo) = (fill_of(counting.to_block().unwrap()), fill_of(cuckoo.to_block().unwrap()));
    // About half of the counters, and 1,000 of at most about 1,200 slots, are in use.
    assert!((0.4..0.6).contains(&of_counting) && (0.4..=1.0).contains(&of_cuckoo), "{of_counting} {of_cuckoo}");
    assert!((of_counting - counting.health().fill_ratio).abs() < 1e-9, "{of_counting}");
    assert!((of_cuckoo - cuckoo.health().fill_ratio).abs() < 1e-9, "{of_cuckoo}");
}
