//! A reader that skips a table by its bounds loses all of its keys if the bounds are wrong: those of another file, or
//! interpreted in another order than the table's.

use sstfilter_interop::Manifest;

use crate::fixtures;
use crate::forged::varint;

/// A manifest in which file 7 on level 1 has this length, and these keys as its ends.
fn manifest(bytes: u64, smallest: &[u8], largest: &[u8]) -> Manifest {
    let mut record = vec![3, 9, 100, 1, 7];
    record.extend(varint(bytes));
    for key in [smallest, largest] {
        record.extend(varint(key.len() as u64 + 8));
        record.extend([key, &[1; 8]].concat());
    }
    record.extend([1, 1]);
    let framed = [&[1], &record[..]].concat();
    let crc = crc32c::crc32c(&framed).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let length = u16::try_from(record.len()).expect("short").to_le_bytes();
    Manifest::parse(&[&crc[..], &length, &framed].concat()).expect("a sound manifest")
}

#[test]
fn every_key_of_a_table_is_between_its_ends_and_keys_beyond_them_are_not() {
    let (mut known, mut reversed) = (0, 0);
    for fixture in fixtures::all().iter().filter(|fixture| fixture.has_known_codec() && fixture.count > 0) {
        let table = fixture.open();
        let keys: Vec<Vec<u8>> = table.user_keys().map(|key| key.expect("a sound table")).collect();
        let (smallest, largest) = (&keys[0], &keys[keys.len() - 1]);
        let bytes = fixture.bytes().len() as u64;
        let of_file = manifest(bytes, smallest, largest);
        let file = of_file.file(7).expect("there");
        let is_bytewise = fixture.comparator == "leveldb.BytewiseComparator";
        let is_reverse = fixture.comparator == "rocksdb.ReverseBytewiseComparator";
        let Some(range) = table.bounds(file) else {
            assert!(!is_bytewise && !is_reverse, "{}", fixture.file);
            continue;
        };
        assert!(is_bytewise || is_reverse, "{}", fixture.file);
        assert!(keys.iter().all(|key| range.holds(key)), "{}", fixture.file);
        let beyond = [b"".as_slice(), &[0xff; 400]];
        let outside = beyond.iter().filter(|key| !keys.iter().any(|other| other == *key));
        assert!(outside.clone().count() > 0 && outside.clone().all(|key| !range.holds(key)), "{}", fixture.file);
        assert!(range.meets(smallest.min(largest), &[0xff; 400]), "{}", fixture.file);
        let misses = !range.meets(&[0xff; 300], &[0xff; 400]);
        assert_eq!(misses, is_bytewise, "{}: in another order, every table may have keys of a range", fixture.file);
        let other = manifest(bytes + 1, smallest, largest);
        assert_eq!(table.bounds(other.file(7).expect("there")), None, "a file of another length");
        let swapped = manifest(bytes, largest, smallest);
        assert!(keys.len() == 1 || table.bounds(swapped.file(7).expect("there")).is_none());
        known += 1;
        reversed += usize::from(is_reverse);
    }
    assert!(known > 100 && reversed > 0, "{known}, {reversed}");
}
