//! Blocks whose checksums and lengths hold, and that a reader must refuse all the same: `fixtures/vectors/refused.json`.
//! The failure guarded against: a reader that trusts checksums takes a value that it does not know, computes with it,
//! and is negative for keys of the file. Each block is a small sound one with one change.

use std::fmt::Write as _;

use sstfilter::{BlockError, FilterBlock, KeyHash, Sizing};

use crate::common::golden::{check_file, hex, is_regenerating};
use crate::common::parts::Parts;
use crate::common::vectors::vectors;
use crate::common::{self, cases};

/// What opening a block ends with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Refusal {
    /// [`BlockError::Field`] of this name, with the value found.
    Field(&'static str, u64),
    /// The lengths expected and found.
    Length(u64, u64),
    TooShort(u64),
    Magic(u16),
    Version(u8),
    UnknownHash(u8),
    UnknownKind(u8),
    Partition,
}
use Refusal::{Field, Length, Magic, Partition, TooShort, UnknownHash, UnknownKind, Version};

impl Refusal {
    fn of(error: &BlockError) -> Self {
        match *error {
            BlockError::Field { field, got, .. } => Field(field, got),
            BlockError::Length { expected, got } => Length(expected, got),
            BlockError::TooShort { expected, .. } => TooShort(expected),
            BlockError::Magic { got } => Magic(got),
            BlockError::Version { got, .. } => Version(got),
            BlockError::UnknownHash { got } => UnknownHash(got),
            BlockError::UnknownKind { got } => UnknownKind(got),
            BlockError::Partition => Partition,
            _ => panic!("no refusal of a forged block: {error}"),
        }
    }
}

/// The first block of a file of vectors.
fn of_vector(name: &str) -> Parts {
    Parts::of_block(&vectors(name).rows("blocks")[0].whole())
}

/// A block, and why it is refused.
struct Case {
    /// The name of the vectors whose first block was changed.
    from: &'static str,
    is: &'static str,
    /// The step of rule 3 of FORMAT.md, or another rule.
    refused_by: &'static str,
    /// Whether a later version of the format, or another program, may write such a block: it is unusable, not damaged.
    may_be_sound: bool,
    change: fn(&mut Parts),
    refusal: Refusal,
}

impl Case {
    fn block(&self) -> Vec<u8> {
        let mut parts = of_vector(self.from);
        (self.change)(&mut parts);
        parts.seal()
    }
}

const fn case(
    from: &'static str,
    refused_by: &'static str,
    is: &'static str,
    change: fn(&mut Parts),
    refusal: Refusal,
) -> Case {
    Case { from, is, refused_by, may_be_sound: false, change, refusal }
}

const fn unknown(refused_by: &'static str, is: &'static str, change: fn(&mut Parts), refusal: Refusal) -> Case {
    Case { may_be_sound: true, ..case(BLOOM, refused_by, is, change, refusal) }
}

/// Step 6 has the checks of the kind.
const fn check(from: &'static str, is: &'static str, change: fn(&mut Parts), refusal: Refusal) -> Case {
    case(from, "step 6", is, change, refusal)
}

const BLOOM: &str = "blocked-bloom";
const RIBBON: &str = "ribbon";
const FUSE: &str = "binary-fuse";
const STANDARD: &str = "standard-bloom";
const COUNTING: &str = "counting-bloom";
const REGISTER: &str = "register-blocked-bloom";
const CUCKOO: &str = "cuckoo";
const XOR: &str = "xor";
const LINE: &str = "line-ribbon";

/// Gives a block a parts word of these bytes, after as many domain tags as it says.
fn with_parts(parts: &mut Parts, word: [u8; 4]) {
    parts.between = [vec![0x5a; 8 * usize::from(word[0])], word.to_vec()].concat();
    parts.trailer[25] |= 0x40;
}

fn bind(parts: &mut Parts) {
    parts.between.extend([0xa5; 8]);
    parts.trailer[25] |= 0x10;
}

/// Gives a block layers of these numbers of lines, and a payload of the length that they would need.
fn with_lines(parts: &mut Parts, lines: &[u32], payload_bytes: usize) {
    parts.params = lines.to_vec();
    parts.payload.resize(payload_bytes, 0);
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    case(BLOOM, "step 1", "31 bytes", |b| { b.payload.clear(); b.params.clear(); }, TooShort(32)),
    case(BLOOM, "step 1", "magic SP, that of a container", |b| b.trailer[27] = b'P', Magic(0x5053)),
    unknown("step 1", "version 0", |b| b.trailer[25] = 0, Version(0)),
    unknown("step 1", "version 2", |b| b.trailer[25] = 2, Version(2)),
    unknown("step 1", "version 15", |b| b.trailer[25] = 15, Version(15)),
    unknown("step 1", "flag bit 7", |b| b.trailer[25] |= 0x80, Field("flags", 8)),
    case(BLOOM, "step 1", "a partition (flag bit 5) that is bound (bit 4)", |b| { bind(b); b.trailer[25] |= 0x20; }, Field("flags", 3)),
    case(BLOOM, "step 1", "a partition (flag bit 5) with parts of keys (bit 6)", |b| { with_parts(b, [1, 1, 0, 0]); b.trailer[25] |= 0x20; }, Field("flags", 6)),
    case(BLOOM, "step 2", "param-words 1 without a parameter word, 32 bytes in all", |b| b.payload.clear(), TooShort(36)),
    case(BLOOM, "step 2", "255 extractors in a block that is too short for their tags",
        |b| { with_parts(b, [1, 1, 0, 0]); b.between[8] = 255; }, TooShort(2080)),
    case(BLOOM, "step 4", "parts word: 0 extractors", |b| with_parts(b, [0, 1, 0, 0]), Field("key extractors of a filter", 0)),
    case(BLOOM, "step 4", "parts word: 64 extractors", |b| with_parts(b, [64, 1, 0, 0]), Field("key extractors of a filter", 64)),
    case(BLOOM, "step 4", "parts word: whole-keys 2", |b| with_parts(b, [1, 2, 0, 0]), Field("whole keys beside parts", 2)),
    case(BLOOM, "step 4", "parts word: byte 2 is 1", |b| with_parts(b, [1, 1, 1, 0]), Field("reserved bytes of the parts word", 1)),
    case(BLOOM, "step 4", "parts word: byte 3 is 128", |b| with_parts(b, [1, 1, 0, 128]), Field("reserved bytes of the parts word", 0x8000)),
    unknown("step 4", "fallback-reason 7", |b| b.trailer[23] |= 7, Field("fallback reason", 7)),
    unknown("step 4", "fallback-reason 15", |b| b.trailer[23] |= 15, Field("fallback reason", 15)),
    unknown("step 4", "hash-id 0", |b| b.trailer[23] = 0, UnknownHash(0)),
    unknown("step 4", "hash-id 3", |b| b.trailer[23] = 3 << 4, UnknownHash(3)),
    unknown("step 4", "hash-id 14", |b| b.trailer[23] = 14 << 4, UnknownHash(14)),
    case(BLOOM, "step 5", "payload-words one too many", |b| b.more_words = 1, Length(108, 100)),
    case(BLOOM, "step 5", "payload-words one too few", |b| b.more_words = u32::MAX, Length(92, 100)),
    case(BLOOM, "step 5", "payload-words 4294967295", |b| b.more_words = u32::MAX - 8, Length((1 << 35) + 28, 100)),
    case(BLOOM, "step 5", "one byte before the payload", |b| b.payload.insert(0, 0), Length(100, 101)),
    case(BLOOM, "rule 8", "a partition (flag bit 5), as a filter of its own", |b| b.trailer[25] |= 0x20, Partition),
    unknown("step 6", "kind 0", |b| b.trailer[21] = 0, UnknownKind(0)),
    unknown("step 6", "kind 12, reserved", |b| b.trailer[21] = 12, UnknownKind(12)),
    unknown("step 6", "kind 127, reserved", |b| b.trailer[21] = 127, UnknownKind(127)),
    unknown("step 6", "kind 128, a user's", |b| b.trailer[21] = 128, UnknownKind(128)),
    unknown("step 6", "kind 255, a user's", |b| b.trailer[21] = 255, UnknownKind(255)),

    check(BLOOM, "no parameter word", |b| b.params.clear(), Field("parameter words", 0)),
    check(BLOOM, "two parameter words", |b| b.params.push(0), Field("parameter words", 2)),
    check(BLOOM, "probes 0", |b| b.params[0] = 0, Field("probes", 0)),
    check(BLOOM, "probes 17", |b| b.params[0] = 17, Field("probes", 17)),
    check(BLOOM, "probes 262: 6 in the low byte", |b| b.params[0] = 262, Field("probes", 262)),
    check(BLOOM, "salt 1", |b| b.trailer[24] |= 1, Field("salt", 1)),
    check(BLOOM, "no line", |b| b.payload.clear(), Field("payload bytes", 0)),
    check(BLOOM, "a line of 56 bytes", |b| b.payload.truncate(56), Field("payload bytes", 56)),
    check(BLOOM, "a line and 8 bytes", |b| b.payload.extend([0; 8]), Field("payload bytes", 72)),

    check(RIBBON, "one parameter word, no layer", |b| b.params.truncate(1), Field("ribbon layers", 0)),
    check(RIBBON, "nine parameter words, eight layers", |b| b.params.extend([1; 7]), Field("ribbon layers", 8)),
    check(RIBBON, "upper 0", |b| b.params[0] = 0, Field("ribbon columns", 0)),
    check(RIBBON, "upper 33", |b| b.params[0] = 33, Field("ribbon columns", 33)),
    check(RIBBON, "bit 8 of parameter word 0", |b| b.params[0] |= 1 << 8, Field("ribbon columns", 0x47ae_0107)),
    check(RIBBON, "bit 15 of parameter word 0", |b| b.params[0] |= 1 << 15, Field("ribbon columns", 0x47ae_8007)),
    check(RIBBON, "lower-share 1 with upper 1", |b| b.params[0] = 1 << 16 | 1, Field("ribbon columns", 0x1_0001)),
    check(RIBBON, "a final layer of 0 blocks", |b| { b.params[1] = 0; b.payload.clear(); }, Field("ribbon layers", 1)),
    check(RIBBON, "a bumping layer of 0 blocks", |b| b.params.insert(1, 0), Field("ribbon layers", 2)),
    check(RIBBON, "one payload word too few", |b| b.payload.truncate(48), Field("payload bytes", 48)),
    check(RIBBON, "one payload word too many", |b| b.payload.extend([0; 8]), Field("payload bytes", 64)),
    check(RIBBON, "two blocks in the payload of one", |b| b.params[1] = 2, Field("payload bytes", 56)),
    check(RIBBON, "4294967295 blocks", |b| b.params[1] = u32::MAX, Field("payload bytes", 56)),

    check(FUSE, "one parameter word", |b| b.params.truncate(1), Field("parameter words", 1)),
    check(FUSE, "three parameter words", |b| b.params.push(0), Field("parameter words", 3)),
    check(FUSE, "bits 3", |b| b.params[0] = 0x03_0303, Field("fingerprint bits", 3)),
    check(FUSE, "bits 33", |b| b.params[0] = 0x03_0321, Field("fingerprint bits", 33)),
    check(FUSE, "arity 2", |b| b.params[0] = 0x03_0208, Field("cells of a key", 2)),
    check(FUSE, "arity 5", |b| b.params[0] = 0x03_0508, Field("cells of a key", 5)),
    check(FUSE, "log2-segment 19", |b| b.params[0] = 0x13_0308, Field("segment length", 0x13)),
    check(FUSE, "byte 3 of parameter word 0 is 1", |b| b.params[0] = 0x0103_0308, Field("segment length", 0x103)),
    check(FUSE, "0 segments", |b| b.params[1] = 0, Field("segments", 0)),
    check(FUSE, "2 segments in the payload of 1", |b| b.params[1] = 2, Field("payload bytes", 32)),
    check(FUSE, "4294967295 segments of 2^18 cells", |b| b.params = vec![0x12_0308, u32::MAX], Field("segments", u32::MAX as u64)),
    check(FUSE, "cells that need 2^32 payload words more than there are",
        |b| { b.params[1] = u32::MAX; b.payload.truncate(16); }, Field("payload bytes", 16)),
    check(FUSE, "one payload word too few", |b| b.payload.truncate(24), Field("payload bytes", 24)),
    check(FUSE, "one payload word too many", |b| b.payload.extend([0; 8]), Field("payload bytes", 40)),

    check(STANDARD, "probes 0", |b| b.params[1] = 0, Field("probes", 0)),
    check(STANDARD, "probes 33", |b| b.params[1] = 33 << 8, Field("probes", 33)),
    check(STANDARD, "no position", |b| { b.params[0] = 0; b.payload.clear(); }, Field("positions", 0)),
    check(STANDARD, "65 positions in 64 bits", |b| b.params[0] = 65, Field("positions", 65)),
    check(STANDARD, "salt 1", |b| b.trailer[24] |= 1, Field("salt", 1)),
    check(COUNTING, "one payload word too many", |b| b.payload.extend([0; 8]), Field("positions", 64)),
    check(REGISTER, "another layout", |b| b.params[0] = 0x4005, Field("word layout", 0x4005)),
    check(REGISTER, "192 bytes, not a power of two", |b| b.payload = vec![0; 192], Field("payload bytes", 192)),
    check(CUCKOO, "tags of 3 bits", |b| b.params[0] = 3, Field("tag bits", 3)),
    check(CUCKOO, "tags of 33 bits", |b| b.params[0] = 33, Field("tag bits", 33)),
    check(CUCKOO, "more keys than slots", |b| b.set_keys((1 << 40) - 1), Field("keys", (1 << 40) - 1)),
    check(XOR, "w 12", |b| b.params[0] = 12, Field("fingerprint bits", 12)),
    check(XOR, "0 cells in a block", |b| b.params[1] = 0, Field("cells of a block", 0)),

    check(LINE, "no parameter word", |b| b.params.clear(), Field("line ribbon layers", 0)),
    check(LINE, "one parameter word, no bumping layer", |b| with_lines(b, &[1], 64), Field("line ribbon layers", 1)),
    check(LINE, "eight parameter words", |b| with_lines(b, &[1; 8], 520), Field("line ribbon layers", 8)),
    check(LINE, "a bumping layer of 0 lines", |b| with_lines(b, &[1, 0, 1], 136), Field("line ribbon layers", 3)),
    check(LINE, "a final layer of 0 lines", |b| with_lines(b, &[1, 1, 0], 136), Field("line ribbon layers", 3)),
    check(LINE, "one payload word too few", |b| b.payload.truncate(192), Field("payload bytes", 192)),
    check(LINE, "one payload word too many", |b| b.payload.extend([0; 8]), Field("payload bytes", 208)),
    check(LINE, "four lines in the payload of three", |b| b.params[0] = 2, Field("payload bytes", 200)),
    check(LINE, "4294967295 lines in each layer", |b| b.params.fill(u32::MAX), Field("payload bytes", 200)),
];

fn file() -> String {
    let row = |case: &Case| {
        format!(
            r#"    {{"is": "{}", "block_of": "{}", "refused_by": "{}", "may_be_sound": {}, "hex": "{}"}}"#,
            case.is,
            case.from,
            case.refused_by,
            case.may_be_sound,
            hex(&case.bytes())
        )
    };
    let mut text = String::from(
        "{\n  \"description\": \"Filter blocks that a reader must refuse although their checksums hold. Each is the first of the blocks in the file block_of, with one change. refused_by is a step of rule 3 for readers, or another rule. If may_be_sound is true, a later version of the format or another program may write such a block: it is unusable, and no damage.\",\n  \"refused\": [\n",
    );
    let rows: Vec<String> = CASES.iter().map(row).collect();
    let _ = write!(text, "{}\n  ]\n}}\n", rows.join(",\n"));
    text
}

impl Case {
    /// The bytes in the file. Nothing shorter than a trailer has checksums.
    fn bytes(&self) -> Vec<u8> {
        let mut block = self.block();
        match self.refusal {
            TooShort(32) => drop(block.remove(0)),
            // The count of parameter words stays; they do not.
            TooShort(36) => drop(block.drain(..4)),
            _ => {}
        }
        block
    }
}

// promise: safe-to-open
#[test]
fn blocks_that_a_reader_must_refuse_are_refused_with_the_error_that_names_the_field() {
    for case in CASES {
        let error = FilterBlock::open_unverified(case.bytes()).expect_err(case.is);
        assert_eq!(Refusal::of(&error), case.refusal, "{}: {error}", case.is);
        let is_unknown = matches!(case.refusal, Version(_) | UnknownHash(_) | UnknownKind(_));
        assert!(case.may_be_sound || !is_unknown, "{}", case.is);
    }
}

/// These are not in the file.
#[test]
fn parameters_of_xor_that_do_not_agree_with_the_payload_are_refused() {
    let hashes: Vec<KeyHash> = common::key_set(6, 1_000).collect();
    for (kind, words) in [("xor", 2), ("xor+", 3)] {
        let block = common::build(&common::policy(kind, Sizing::FingerprintBits(8)), &hashes).block.unwrap();
        let claims = [(0, 7), (0, 16), (0, 0), (0, 8 | 1 << 8), (1, 0), (1, 430), (1, u32::MAX), (2, 422)];
        for (word, claim) in claims.into_iter().filter(|&(word, _)| word < words) {
            let mut parts = Parts::of_block(&block);
            parts.params[word] = claim;
            let refused = FilterBlock::open_unverified(parts.seal()).err();
            assert!(matches!(refused, Some(BlockError::Field { .. })), "{kind}, word {word} as {claim}: {refused:?}");
        }
    }
}

#[test]
fn the_file_of_refused_blocks_has_them_all() {
    check_file(&cases::directory().join("../vectors/refused.json"), file().as_bytes());
    if !is_regenerating() {
        let stored = vectors("refused");
        assert!(stored.rows("refused").iter().all(|row| FilterBlock::open_unverified(row.bytes("hex")).is_err()));
    }
}

/// Otherwise the blocks would be refused for another reason than the change.
#[test]
fn the_blocks_are_accepted_without_the_change_and_under_harmless_ones() {
    let harmless: [fn(&mut Parts); 5] = [
        |_| {},
        |parts| with_parts(parts, [1, 1, 0, 0]),
        |parts| with_parts(parts, [63, 0, 0, 0]),
        bind,
        // Informative, and any value.
        |parts| parts.trailer[22] = 200,
    ];
    for (from, change) in [BLOOM, RIBBON, FUSE, STANDARD, COUNTING, REGISTER, CUCKOO, XOR, LINE]
        .into_iter()
        .flat_map(|from| harmless.map(|change| (from, change)))
    {
        let mut parts = of_vector(from);
        change(&mut parts);
        FilterBlock::open_unverified(parts.seal()).unwrap().verify().unwrap();
    }
}
