//! The partitioned filters of `fixtures`, rebuilt byte for byte and read back.

use crate::cases::CONTAINERS;
use crate::common::cases;
use crate::common::for_each_set;
use crate::common::golden::{check_file, is_regenerating};

#[test]
fn every_partitioned_filter_is_built_as_it_was_byte_for_byte() {
    for_each_set(|_| {
        for case in &CONTAINERS {
            check_file(&cases::directory().join(case.file()), &case.build());
        }
    });
}

#[test]
fn every_key_of_a_stored_partitioned_filter_is_found() {
    if is_regenerating() {
        return;
    }
    for_each_set(|set| {
        for case in &CONTAINERS {
            let filter = case.load(&case.read());
            filter.verify().unwrap();
            assert!(filter.problems().is_empty(), "{}", case.name);
            let (parts, hasher) = ((case.parts)(), case.hash.hasher());
            for (key, hash) in case.keys() {
                assert!(filter.may_contain(&key, hash), "{} with {set}: {key:?}", case.name);
                let prefix = parts.prefix(&hasher, &key[..10]);
                assert!(filter.may_contain_prefix(&prefix), "{} with {set}: the prefix of {key:?}", case.name);
            }
            let absent = (0..1_000).map(cases::absent_key);
            let lacks_prefix = |key: &Vec<u8>| !filter.may_contain_prefix(&parts.prefix(&hasher, key));
            let negatives = absent.filter(lacks_prefix).count();
            assert_eq!(negatives > 900, parts.extractors().len() > 0, "{}: {negatives}", case.name);
        }
    });
}
