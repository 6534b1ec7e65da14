//! The sweep against plain Gaussian elimination, and the filter as a whole.

use super::band::{Section, WHOLE_BUCKET};
use super::build;
use super::columns::Columns;
use super::equation::{
    BUCKET_SLOTS, SMASH, THRESHOLDS, WIDTH, bumping_start, coefficients, final_layer_hash, next_layer_hash, result,
};
use super::layer::Layer;
use super::section::{section_bytes, solve_section, split_into_sections};
use super::shape::RibbonShape;
use crate::filter::{AnyShape, BuiltPayload, FilterShape, OpenShape};
use crate::hash::{KeyHash, KeyHasher, mix64};
use crate::simd::for_each_set;
use crate::vectors::{Value, vectors};

fn sorted_hashes(keys: u64, seed: u64) -> Vec<u64> {
    let mut hashes: Vec<u64> = (0..keys).map(|key| mix64(mix64(seed).wrapping_add(key))).collect();
    hashes.sort_unstable();
    hashes
}

fn build(hashes: &[KeyHash], columns: Columns) -> BuiltPayload<RibbonShape> {
    build::build(hashes, columns, 64, 1, &mut Section::default()).unwrap()
}

fn key_hashes(keys: u64, seed: u64) -> Vec<KeyHash> {
    sorted_hashes(keys, seed).into_iter().map(KeyHash::from_well_mixed).collect()
}

/// A key and where its equation starts.
#[derive(Clone, Copy)]
struct Candidate {
    hash: u64,
    start: u64,
}

/// Textbook elimination: a row per slot, aligned to its slot.
#[derive(Clone)]
struct Oracle {
    rows: Vec<Option<(u64, u32)>>,
    mask: u32,
}

impl Oracle {
    /// Adds a key's equation; `false` when it contradicts those before it.
    fn insert(&mut self, key: &Candidate) -> bool {
        let (mut slot, mut row, mut out) = (key.start as usize, coefficients(key.hash), result(key.hash) & self.mask);
        while row != 0 {
            let skip = row.trailing_zeros();
            slot += skip as usize;
            row >>= skip;
            let Some((pivot, pivot_out)) = self.rows[slot] else {
                self.rows[slot] = Some((row, out));
                return true;
            };
            row ^= pivot;
            out ^= pivot_out;
        }
        out == 0
    }

    /// Adds the classes of a bucket from the right; drops the first that does not fit, and all after it.
    fn insert_bucket(&mut self, bucket_start: u64, keys: &[Candidate]) -> u8 {
        for code in (0..3).rev() {
            let (from, to) = (u64::from(THRESHOLDS[code]), u64::from(THRESHOLDS[code + 1]));
            let before = self.clone();
            let mut class = keys.iter().filter(|key| (from..to).contains(&(key.start - bucket_start)));
            if !class.all(|key| self.insert(key)) {
                *self = before;
                return code as u8 + 1;
            }
        }
        0
    }

    /// The solution, one word of columns per slot, free slots 0.
    fn solution(&self) -> Vec<u32> {
        let mut solution = vec![0; self.rows.len() + 64];
        for (slot, row) in self.rows.iter().enumerate().rev() {
            if let Some((row, out)) = row {
                let others = (1..64).filter(|bit| row >> bit & 1 == 1);
                solution[slot] = others.fold(*out, |sum, bit| sum ^ solution[slot + bit]);
            }
        }
        solution
    }
}

/// Bands and solves one layer both ways, and returns the codes met.
fn compare_with_oracle(count: u8, blocks: u32, keys: u64, seed: u64) -> Vec<u8> {
    let columns = Columns::new(count, 0).unwrap();
    let layer = Layer::alone(columns, blocks, 0);
    let candidates: Vec<Candidate> =
        sorted_hashes(keys, seed).into_iter().map(|hash| Candidate { hash, start: layer.start(hash) }).collect();
    let mut oracle = Oracle { rows: vec![None; layer.slots as usize], mask: columns.result_mask() };
    let mut section = Section::default();
    section.reset(0, layer.slots);
    let mut codes = Vec::new();
    for bucket_start in (0..layer.slots).step_by(BUCKET_SLOTS as usize) {
        let in_bucket = |key: &&Candidate| (bucket_start..bucket_start + BUCKET_SLOTS).contains(&key.start);
        let bucket: Vec<Candidate> = candidates.iter().filter(in_bucket).copied().collect();
        let hashes: Vec<KeyHash> = bucket.iter().map(|key| KeyHash::from_well_mixed(key.hash)).collect();
        let code = section.band_bucket(bucket_start, &hashes, &layer, columns.result_mask()).code;
        assert_eq!(code, oracle.insert_bucket(bucket_start, &bucket), "bucket at {bucket_start}");
        codes.push(code);
    }
    let mut payload = vec![0; (layer.words(columns) * 8) as usize];
    solve_section(&section, 0, &layer, columns, payload.as_chunks_mut().0);
    let words: Vec<u64> = payload.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    for (slot, expected) in oracle.solution().into_iter().take(layer.slots as usize).enumerate() {
        let block = &words[slot / 64 * usize::from(count)..][..count.into()];
        let got = block.iter().enumerate().fold(0, |bits, (column, word)| bits | ((word >> (slot % 64) & 1) << column));
        assert_eq!(got, u64::from(expected), "slot {slot}");
    }
    codes
}

#[test]
fn the_sweep_keeps_and_solves_what_plain_elimination_does_with_every_instruction_set() {
    for_each_set(|set| {
        let mut met = [0; 4];
        for seed in 0..20 {
            for percent in [60, 95, 100, 104, 110, 150] {
                let columns = [1, 7, 8, 9, 16, 17, 32][seed as usize % 7];
                let blocks = 5 + seed as u32 % 4;
                let keys = u64::from(blocks) * WIDTH * percent / 100;
                compare_with_oracle(columns, blocks, keys, seed)
                    .into_iter()
                    .for_each(|code| met[usize::from(code)] += 1);
            }
        }
        assert!(met.iter().all(|&count| count > 10), "{set}: every threshold code should occur: {met:?}");
    });
}

#[test]
fn every_instruction_set_gives_the_same_bytes() {
    let mixed = key_hashes(60_000, 3);
    // More rows in some buckets than the vector forms have lanes for.
    let overfull: Vec<KeyHash> = (0..20_000).map(|key| KeyHash::from_well_mixed(key << 47)).collect();
    for (hashes, upper, share) in [(&mixed, 7, 0), (&mixed, 12, 9_000), (&mixed, 32, 0), (&overfull, 8, 1)] {
        let columns = Columns::new(upper, share).unwrap();
        let mut first: Option<Vec<u8>> = None;
        for_each_set(|set| {
            let built = build(hashes, columns);
            let bytes = built.payload.as_slice();
            assert!(first.get_or_insert_with(|| bytes.to_vec()) == bytes, "{set}, {upper} columns");
            assert!(hashes.iter().all(|&hash| built.shape.may_contain(bytes, hash)), "{set}, {upper} columns");
        });
    }
}

#[test]
fn whole_buckets_are_bumped_at_section_walls_and_where_keys_crowd_and_no_key_is_lost() {
    let columns = Columns::new(7, 0).unwrap();
    // 300,000 keys have a wall at slot 2^18; the crowd is 4,000 keys within two buckets.
    let mut hashes = key_hashes(300_000, 1);
    hashes.extend((0..4_000).map(|key| KeyHash::from_well_mixed((1 << 62) + key * 50_000_000_000)));
    hashes.sort_unstable();
    let built = build(&hashes, columns);
    let (payload, first) = (built.payload.as_slice(), built.shape.layers()[0]);
    let codes = |bucket: u64| {
        let byte = payload[(first.threshold_word * 8 + bucket / 4) as usize];
        byte >> (bucket % 4 * 2) & 3
    };
    assert_eq!(codes((1 << 18) / BUCKET_SLOTS - 1), WHOLE_BUCKET);
    let overfull = (0..first.slots / BUCKET_SLOTS).filter(|&bucket| codes(bucket) == WHOLE_BUCKET).count();
    assert!(overfull > 1, "{overfull}");
    assert!(hashes.iter().all(|&hash| built.shape.may_contain(payload, hash)));
}

#[test]
fn every_key_is_found_at_every_size_and_number_of_columns() {
    for keys in [0, 1, 2, 3, 7, 63, 64, 65, 127, 128, 129, 1_000, 5_000, 5_001, 11_500] {
        let hashes = key_hashes(keys, keys);
        for (upper, share) in [(1, 0), (2, 40_000), (7, 0), (8, 1), (9, 65_535), (16, 30_000), (17, 0), (32, 20_000)] {
            let built = build(&hashes, Columns::new(upper, share).unwrap());
            let payload = built.payload.as_slice();
            assert_eq!(payload.len() as u64, built.shape.payload_bytes());
            assert!(hashes.iter().all(|&hash| built.shape.may_contain(payload, hash)), "{keys} keys, {upper} columns");
        }
    }
}

#[test]
fn hashes_that_are_not_mixed_at_all_still_give_a_filter_without_false_negatives() {
    let columns = Columns::new(7, 0).unwrap();
    for step in [1, 1 << 20, 1 << 40] {
        let hashes: Vec<KeyHash> = (0..20_000).map(|key| KeyHash::from_well_mixed(key * step)).collect();
        let built = build(&hashes, columns);
        assert!(hashes.iter().all(|&hash| built.shape.may_contain(built.payload.as_slice(), hash)), "step {step}");
    }
}

#[test]
fn a_payload_of_another_length_reads_as_may_be_present() {
    let built = build(&key_hashes(6_000, 3), Columns::new(7, 0).unwrap());
    let absent = key_hashes(1_000, 99);
    assert!(absent.iter().all(|&hash| built.shape.may_contain(&[], hash)));
    let half = &built.payload.as_slice()[..100];
    assert!(key_hashes(6_000, 3).iter().all(|&hash| built.shape.may_contain(half, hash)));
}

#[test]
fn sections_done_one_by_one_and_all_at_once_give_the_same_bytes() {
    let columns = Columns::new(7, 20_000).unwrap();
    let hashes = key_hashes(700_000, 5);
    let built = build(&hashes, columns);
    let layer = built.shape.layers()[0];
    let mut payload = vec![0; (layer.words(columns) * 8) as usize];
    let mut thresholds = vec![0; layer.threshold_words() as usize];
    let mut bumped = Vec::new();
    for task in split_into_sections(layer, columns, &hashes, payload.as_chunks_mut().0, &mut thresholds) {
        task.run(&mut Section::default(), &mut bumped);
    }
    assert!(payload == built.payload.as_slice()[..payload.len()]);
    let place = (layer.threshold_word * 8) as usize;
    let bytes: Vec<u8> = thresholds.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert!(bytes == built.payload.as_slice()[place..place + bytes.len()]);
    assert!((20_000..40_000).contains(&bumped.len()) && bumped.is_sorted());
}

#[test]
fn every_key_is_found_by_every_instruction_set_one_by_one_and_in_batches() {
    for (keys, upper, share) in [(1, 7, 0), (4_000, 7, 0), (20_000, 7, 18_350), (20_000, 8, 0), (60_000, 13, 9_000)] {
        let hashes = key_hashes(keys, keys + 7);
        let built = build(&hashes, Columns::new(upper, share).unwrap());
        let payload = built.payload.as_slice();
        for_each_set(|set| {
            let mut matches = vec![0_u64; hashes.len().div_ceil(64)];
            built.shape.may_contain_batch(payload, &hashes, &mut matches);
            let found: u32 = matches.iter().map(|word| word.count_ones()).sum();
            assert_eq!(u64::from(found), keys, "{set}, {upper} columns");
            assert!(hashes.iter().all(|&hash| built.shape.may_contain(payload, hash)), "{set}, {keys} keys");
            let open = OpenShape::new(AnyShape::Ribbon(built.shape));
            for hash in key_hashes(3_000, 99).into_iter().chain(hashes.iter().copied()) {
                assert_eq!((open.probe)(payload, hash, &open), built.shape.may_contain(payload, hash), "{set}");
                assert!((open.probe)(&payload[..payload.len() - 1], hash, &open), "{set}");
            }
        });
    }
}

#[test]
fn the_reported_peak_of_a_build_is_what_its_largest_step_holds() {
    let (columns, mut section) = (Columns::new(7, 20_000).unwrap(), Section::default());
    // One layer, whose hashes are so few that sorting takes no memory: they and the mapped ones.
    let built = build::build(&key_hashes(100, 5), columns, 64, 1, &mut section).unwrap();
    assert_eq!(built.peak_bytes, section.bytes() + built.payload.capacity() as u64 + 2 * 100 * 8);

    let keys = 600_000;
    let hashes = key_hashes(keys, 5);
    let peak_and_more = |threads, section: &mut Section| {
        let built = build::build(&hashes, columns, 64, threads, section).unwrap();
        let layers = built.shape.layers().to_vec();
        let before = section.bytes() + built.payload.capacity() as u64 + layers[0].threshold_words() * 8;
        (layers, built.peak_bytes - before)
    };
    // On one thread the sort of the bumped keys takes most: the keys, their copy, and the ends of windows and bins.
    let (layers, more) = peak_and_more(1, &mut section);
    let bumped = (layers[1].slots - WIDTH) * 1_000 / 960;
    assert!((bumped * 16..bumped * 16 + 40_000).contains(&more), "{more} bytes for {bumped} keys");
    // On two it is the two sections, while the bumped keys are collected. The calling thread's section has its final
    // size from the previous build, for any share of the work; the pieces of the other one may all be a few slots
    // smaller.
    let (layers, more) = peak_and_more(2, &mut section);
    let most = 2 * keys / 16 * 8 + section_bytes(layers[0].slots);
    assert!((most - 1_024..=most).contains(&more), "{more} bytes, {most} expected");
}

/// A build's memory depends only on its own keys, not on what the section was used for before.
#[test]
fn a_section_that_served_a_smaller_file_is_no_larger_than_a_new_one() {
    let [mut new, mut used] = [0; 2].map(|_| Section::default());
    used.reset(0, 1_000 * WIDTH);
    used.reset(0, 1_001 * WIDTH);
    new.reset(0, 1_001 * WIDTH);
    assert_eq!(used.bytes(), new.bytes());
}

#[test]
fn a_section_counts_a_bit_a_row_and_a_result_for_each_of_its_slots() {
    let mut section = Section::default();
    let empty = section.bytes();
    section.reset(0, 100 * WIDTH);
    assert_eq!(section.bytes() - empty, 100 * (64 / 8 + 64 * 8 + 64 * 4));
}

/// Compares starts with those of a vector, by the number of slots.
fn check_starts(row: &Value, name: &str, start: impl Fn(u64) -> u64) {
    for (slots, expected) in row.object(name) {
        assert_eq!(Some(start(slots.parse().unwrap())), expected.as_number(), "{slots} slots");
    }
}

/// Where a key's equation starts in a final layer.
fn final_start(hash: u64, slots: u64) -> u64 {
    Layer { slots, smash: SMASH, ..Layer::default() }.start(hash)
}

#[test]
fn equations_are_those_of_the_vectors() {
    let own = vectors("ribbon");
    for row in own.rows("derivations") {
        let hash = row.hex("hash");
        check_starts(row, "starts", |slots| bumping_start(hash, slots));
        assert_eq!(
            (coefficients(hash), u64::from(result(hash))),
            (row.hex("coefficients"), row.hex("result")),
            "{row}"
        );
        assert_eq!(next_layer_hash(hash), row.hex("next_layer_hash"), "{row}");
        check_starts(row, "next_starts", |slots| bumping_start(row.hex("next_layer_hash"), slots));
        for last in row.rows("final") {
            assert_eq!(final_layer_hash(hash, last.number("salt") as u8), last.hex("hash"), "{row}");
            check_starts(last, "starts", |slots| final_start(last.hex("hash"), slots));
        }
    }
    for row in own.rows("blocks").iter().flat_map(|block| block.rows("equations")) {
        let hash = final_layer_hash(KeyHasher::default().hash(row.text("key").as_bytes()).get(), 0);
        assert_eq!((hash, final_start(hash, 64)), (row.hex("final_layer_hash"), row.number("start")), "{row}");
        assert_eq!(
            (coefficients(hash), u64::from(result(hash))),
            (row.hex("coefficients"), row.hex("result")),
            "{row}"
        );
        assert_eq!(format!("{:07b}", result(hash) & 127), row.text("low_result_bits"), "{row}");
    }
}

#[test]
fn layers_have_the_sizes_of_the_vectors() {
    let columns = Columns::new(7, 0x47ae).unwrap();
    for row in vectors("ribbon").rows("shapes") {
        let is_final = row.bool("is_final");
        let layer = Layer::alone(columns, row.number("blocks") as u32, if is_final { SMASH } else { 0 });
        let thresholds = if is_final { 0 } else { layer.threshold_words() };
        let sizes = [layer.lower_blocks.into(), layer.words(columns), thresholds];
        assert_eq!(sizes, ["lower_blocks", "column_words", "threshold_words"].map(|name| row.number(name)), "{row}");
    }
}
