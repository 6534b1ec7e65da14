//! In place of writes and their maps, without the feature `maps`.

use sstfilter::KeyHash;

use crate::never::without_values;

without_values! {
    Writes {}
    WriteId {}
    FileWrites {}
    NoWrites {
        fn may_be_in(Writes) -> bool;
        fn is_unknown() -> bool;
    }
    WriteSet {
        fn of(KeyHash) -> NoWrites;
        fn of_each(&[KeyHash]) -> Vec<NoWrites>;
        fn covers(Writes) -> bool;
    }
}

impl Copy for Writes {}

impl Copy for WriteId {}

pub(crate) type KeyWrites<'a> = NoWrites;

pub(crate) fn in_maps(file: &FileWrites) -> Option<Writes> {
    match file.0 {}
}
