//! Filters of key prefixes. The failures guarded against: the program treats such a filter as one of whole keys, so
//! that `probe` reports every stored key as absent, or it refuses to show a sound filter because it lacks the
//! extractor.

use std::sync::Arc;

use sstfilter::KeyParts;

use crate::common::{Place, lines, run};
use crate::described::{Tenant, bare_filters};

const KEYS: usize = 3_000;

#[test]
fn filters_of_parts_alone_are_sound_and_no_key_is_absent_from_them() {
    let place = Place::new();
    let stored = place.write("stored", lines(0..KEYS, |key| format!("key{key:04}")));
    for path in bare_filters(&place, &KeyParts::extracted(Arc::new(Tenant))) {
        run(&["verify", &path]).expect_code(0);
        let probed = crate::common::probed(&[&path, "--keys", &stored], 0);
        assert_eq!((&probed["files"][0]["read_for"], &probed["files"][0]["state"]), (&KEYS.into(), &"unusable".into()));
        let text = run(&["probe", &path, "--keys", &stored]).expect_code(0).stdout;
        assert!(text.contains("its filter holds only parts of keys, and this program does not have"), "{text}");
    }
}
