//! A key that is lost, bytes that depend on the CPU or on nothing but chance, a rate that is not 2^-8, memory that
//! hostile keys or headers take.

use alloc::collections::BTreeMap;

use super::build::{build, build_bytes};
use super::layout::{Layout, MAX_LAYERS};
use super::shape::{LineRibbonShape, Load};
use super::simd::equation::{Equations, coefficients, next_hash, place, result};
use crate::filter::{BuiltPayload, EncodedShape, FallbackReason, FilterShape};
use crate::hash::KeyHash;
use crate::simd::for_each_set;

fn hashes(first: u64, count: u64) -> Vec<KeyHash> {
    (first..first + count).map(KeyHash::mix).collect()
}

fn sorted(mut hashes: Vec<KeyHash>) -> Vec<KeyHash> {
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

type Built = Result<BuiltPayload<LineRibbonShape>, FallbackReason>;

fn try_build(hashes: &[KeyHash], load: Load) -> Built {
    build(hashes, &load.shape(hashes.len() as u64).unwrap(), 1)
}

/// Checks that every probe gives the answer of the format's page, and returns the number of positives.
fn positives(built: &BuiltPayload<LineRibbonShape>, hashes: &[KeyHash]) -> u32 {
    let (shape, payload) = (&built.shape, built.payload.as_slice());
    let mut matches = vec![u64::MAX; hashes.len().div_ceil(64)];
    shape.may_contain_batch(payload, hashes, &mut matches);
    for (index, &hash) in hashes.iter().enumerate() {
        let expected = specified(shape, payload, hash.get());
        assert_eq!(shape.may_contain(payload, hash), expected, "{hash:?}");
        assert_eq!(matches[index / 64] >> (index % 64) & 1 == 1, expected, "{hash:?}");
    }
    let positives = matches.iter().map(|word| word.count_ones()).sum();
    assert!(positives as usize <= hashes.len(), "bits after the last key");
    positives
}

/// The query of docs/format/line-ribbon.md.
fn specified(shape: &LineRibbonShape, payload: &[u8], hash: u64) -> bool {
    let (bumping, last) = (shape.layout.layers().len() - 1, shape.layout.layers()[shape.layout.layers().len() - 1]);
    let mut mapped = hash;
    for layer in &shape.layout.layers()[..bumping] {
        let (line, tag) = place(mapped, layer.lines);
        if tag <= payload[(shape.layout.limits_at + layer.first + line) as usize] {
            return holds(payload, layer.first + line, hash);
        }
        mapped = next_hash(mapped);
    }
    let equations = Equations { layer: bumping, salt: Some(shape.salt()) };
    holds(payload, last.first + place(mapped, last.lines).0, equations.of(KeyHash::from_well_mixed(mapped)))
}

fn holds(payload: &[u8], line: u64, hash: u64) -> bool {
    let words = payload[line as usize * 64..][..64].as_chunks().0;
    (0..8).all(|column| {
        let parity = (u64::from_le_bytes(words[column]) & coefficients(hash)).count_ones() % 2;
        parity == u32::from(result(hash) >> column & 1)
    })
}

/// Textbook elimination of a line, with rows by pivot. `None` if equations contradict each other.
#[derive(Clone, Default)]
struct Oracle(BTreeMap<u32, (u64, u8)>);

impl Oracle {
    fn insert(&mut self, hash: u64) -> Option<()> {
        let (mut row, mut value) = (coefficients(hash), result(hash));
        for (pivot, (other, other_value)) in &self.0 {
            if row >> pivot & 1 == 1 {
                (row, value) = (row ^ other, value ^ other_value);
            }
        }
        if row == 0 {
            return (value == 0).then_some(());
        }
        let pivot = row.trailing_zeros();
        for (other, other_value) in self.0.values_mut() {
            if *other >> pivot & 1 == 1 {
                (*other, *other_value) = (*other ^ row, *other_value ^ value);
            }
        }
        self.0.insert(pivot, (row, value));
        Some(())
    }

    fn line(&self) -> Vec<u8> {
        let column = |column: u32| {
            self.0.iter().fold(0_u64, |word, (pivot, (_, value))| word | u64::from(value >> column & 1) << pivot)
        };
        (0..8).flat_map(|number| column(number).to_le_bytes()).collect()
    }
}

/// The payload of a filter by the page's section on equal bytes; `None` if there is none.
fn specified_payload(hashes: &[KeyHash], shape: &LineRibbonShape) -> Option<(u8, Vec<u8>)> {
    let (bumping, last) = (shape.layout.layers().len() - 1, shape.layout.layers()[shape.layout.layers().len() - 1]);
    let (mut lines, mut limits): (Vec<u8>, Vec<u8>) = Default::default();
    let mut left: Vec<(u64, u64)> = hashes.iter().map(|hash| (hash.get(), hash.get())).collect();
    let by_line = |keys: &[(u64, u64)], count: u64| {
        let mut all = vec![BTreeMap::<u8, Vec<(u64, u64)>>::new(); count as usize];
        for &(mapped, hash) in keys {
            let (line, tag) = place(mapped, count);
            all[line as usize].entry(tag).or_default().push((mapped, hash));
        }
        all
    };
    for layer in &shape.layout.layers()[..bumping] {
        if left.len() as u64 > layer.lines * 128 {
            return None;
        }
        let mut bumped = Vec::new();
        for tags in by_line(&left, layer.lines) {
            let (mut oracle, mut limit) = (Oracle::default(), 255);
            for (tag, keys) in &tags {
                let mut with = oracle.clone();
                if keys.iter().any(|key| with.insert(key.1).is_none()) {
                    limit = tag.checked_sub(1)?;
                    break;
                }
                oracle = with;
            }
            bumped.extend(tags.iter().filter(|(tag, _)| **tag > limit).flat_map(|(_, keys)| keys.iter().copied()));
            lines.extend(oracle.line());
            limits.push(limit);
        }
        left = bumped.iter().map(|&(mapped, hash)| (next_hash(mapped), hash)).collect();
    }
    let solved = |salt: u8| {
        let mut all = Vec::new();
        for tags in by_line(&left, last.lines) {
            let mut oracle = Oracle::default();
            for (mapped, _) in tags.into_values().flatten() {
                oracle.insert(Equations { layer: bumping, salt: Some(salt) }.of(KeyHash::from_well_mixed(mapped)))?;
            }
            all.extend(oracle.line());
        }
        Some((salt, all))
    };
    let (salt, last) = (0..8).find_map(solved).filter(|_| left.len() as u64 <= last.lines * 128)?;
    let mut payload = [lines, last, limits].concat();
    payload.resize(payload.len().next_multiple_of(8), 0);
    Some((salt, payload))
}

/// Builds with every instruction set, and checks each against the page. Returns the reason if there is no filter.
fn check(hashes: &[KeyHash], load: Load, absent: &[KeyHash]) -> Result<(), FallbackReason> {
    check_shape(hashes, &load.shape(hashes.len() as u64).unwrap(), absent).map(|_| ())
}

/// The same for a filter of any shape. Returns the salt.
fn check_shape(hashes: &[KeyHash], shape: &LineRibbonShape, absent: &[KeyHash]) -> Result<u8, FallbackReason> {
    let expected = specified_payload(hashes, shape);
    let mut results = Vec::new();
    for_each_set(|set| {
        let built = build(hashes, shape, 1);
        let bytes = built.as_ref().ok().map(|built| (built.shape.salt(), built.payload.as_slice().to_vec()));
        assert!(bytes == expected, "{set}, {shape:?}, {} keys", hashes.len());
        if let Ok(built) = &built {
            assert_eq!(built.payload.as_slice().len() as u64, built.shape.payload_bytes());
            assert_eq!(positives(built, hashes), hashes.len() as u32, "{set}, {shape:?}, {} keys", hashes.len());
            positives(built, absent);
        }
        results.push(built.map(|built| built.shape.salt()));
    });
    results[0]
}

/// Our sizes never fill a layer, so that the first salt nearly always works, and none gets too many keys.
#[test]
fn full_layers_take_as_many_keys_and_salts_as_the_page_says() {
    let (mut salts, mut failures) = (BTreeMap::<u8, u32>::new(), 0);
    for (lines, counts) in [(&[1, 1][..], 108..128), (&[2, 1, 1, 1], 235..257), (&[2, 1, 1, 1, 1, 1, 1], 235..257)] {
        let shape = LineRibbonShape { layout: Layout::new(lines, 0).unwrap() };
        for (seed, count) in (0..).zip(counts.flat_map(|count| [count; 5])) {
            match check_shape(&sorted(hashes(seed << 32, count)), &shape, &[]) {
                Ok(salt) => *salts.entry(salt).or_default() += 1,
                Err(reason) => {
                    assert_eq!(reason, FallbackReason::ConstructionFailed);
                    failures += 1;
                }
            }
        }
    }
    // Salt 7 is the last.
    assert!(salts.contains_key(&7) && failures > 20, "{salts:?}, {failures} failures");
}

#[test]
fn every_instruction_set_finds_all_keys_and_writes_the_bytes_of_the_page() {
    let absent = hashes(1 << 48, 1_001);
    for load in Load::ALL {
        for count in [0, 1, 2, 7, 8, 9, 63, 64, 65, 500, 2_999, 3_000, 3_001, 5_000, 10_000, 40_000] {
            assert_eq!(check(&sorted(hashes(count * 7, count)), load, &absent), Ok(()), "{load:?}, {count} keys");
        }
        for start in (1..20).step_by(crate::effort::stride(4)) {
            let count = 3_000 + start;
            assert_eq!(check(&sorted(hashes(start << 32, count)), load, &absent[..count as usize % 99]), Ok(()));
        }
    }
}

/// Payloads that no writer makes: any number of layers, of any limits, in buffers of any alignment.
#[test]
fn forged_payloads_are_read_as_the_page_says_on_every_instruction_set() {
    let mut state = 0_u64;
    let mut random = move |below: u64| {
        state += 1;
        KeyHash::mix(state).get() % below
    };
    for round in 0..3_000 {
        let mut lines: Vec<u32> = (0..2 + random(6)).map(|_| ((1 + random(512)) >> random(9)).max(1) as u32).collect();
        // Payloads of more than 256 KiB are prefetched.
        lines[0] += if round % 100 == 0 { 1 << 13 } else { 0 };
        let layout = Layout::new(&lines, random(16) as u8).unwrap();
        let (length, start) = (layout.payload_bytes as usize, random(64) as usize);
        let mut bytes: Vec<u8> = (0..start + length).map(|_| random(256) as u8).collect();
        // So that a good share of the answers is positive, lines are sparse.
        let lines_end = start + layout.limits_at as usize;
        bytes[start..lines_end].iter_mut().for_each(|byte| *byte &= if random(64) == 0 { 255 } else { 0 });
        bytes[lines_end..].iter_mut().filter(|byte| **byte % 5 < 2).for_each(|byte| *byte = 255 * (*byte & 1));
        // Data may be longer than the payload.
        bytes.extend([0xa5; 40]);
        let count = if round % 2 == 0 { round / 2 % 200 } else { random(200) };
        let hashes: Vec<KeyHash> = (0..count)
            .map(|_| match random(8) {
                0 => KeyHash::from_well_mixed(random(2).wrapping_sub(1)),
                // No result bits.
                1 => KeyHash::from_well_mixed(random(u64::MAX) & !(255 << 24)),
                _ => KeyHash::from_well_mixed(random(u64::MAX)),
            })
            .collect();
        let shape = LineRibbonShape { layout };
        let end = if round % 3 == 0 { bytes.len() } else { start + length };
        let data = &bytes[start..end];
        let expected: Vec<bool> = hashes.iter().map(|hash| specified(&shape, data, hash.get())).collect();
        for_each_set(|set| {
            let open = crate::filter::OpenShape::new(crate::filter::AnyShape::LineRibbon(shape));
            // Words of too few and too many.
            for words in [count as usize / 128, count.div_ceil(64) as usize, count.div_ceil(64) as usize + 2] {
                let mut matches = vec![u64::MAX; words];
                shape.may_contain_batch(data, &hashes, &mut matches);
                for (index, &hash) in hashes.iter().enumerate() {
                    if let Some(word) = matches.get(index / 64) {
                        assert_eq!(word >> (index % 64) & 1 == 1, expected[index], "{set} {lines:?} {hash:?}");
                    }
                    assert_eq!(shape.may_contain(data, hash), expected[index], "{set} {lines:?} {hash:?}");
                    assert_eq!((open.probe)(data, hash, &open), expected[index], "{set} {lines:?} {hash:?}");
                    assert!((open.probe)(&data[..length - 1], hash, &open));
                }
            }
        });
    }
}

/// The first line of a layer of `lines`, by its hashes: those below the returned one.
fn first_of_second_line(lines: u64) -> u64 {
    (u128::from(u64::MAX) / u128::from(lines)) as u64
}

#[test]
fn keys_that_crowd_in_a_line_are_bumped_by_whole_tags_or_give_no_filter() {
    let absent = hashes(1 << 48, 300);
    for load in Load::ALL {
        let usual = hashes(0, 20_000);
        let in_first_line = |count| {
            let end = first_of_second_line(load.shape(20_000 + count).unwrap().layout.layers()[0].lines);
            hashes(1 << 40, count).into_iter().map(move |hash| KeyHash::from_well_mixed(hash.get() % end))
        };
        let with = |more: Vec<KeyHash>| sorted([usual.as_slice(), more.as_slice()].concat());
        // The limit is below 128.
        assert_eq!(check(&with(in_first_line(200).collect()), load, &absent), Ok(()));
        // All have the highest tag, and none of them is kept.
        let end = first_of_second_line(load.shape(20_100).unwrap().layout.layers()[0].lines);
        let highest = (0..100).map(|key| KeyHash::from_well_mixed(end - 1 - key * 1_000_003)).collect();
        assert_eq!(check(&with(highest), load, &absent), Ok(()));
        // All have the lowest tag.
        let lowest = (0..65).map(|key| KeyHash::from_well_mixed(key * 1_000_003)).collect();
        assert_eq!(check(&with(lowest), load, &absent), Err(FallbackReason::ConstructionFailed));
        // Too many for the next layer.
        assert_eq!(
            check(&with(in_first_line(15_000).collect()), load, &absent),
            Err(FallbackReason::ConstructionFailed)
        );
    }
}

#[test]
fn hashes_that_are_not_mixed_at_all_give_no_filter_in_bounded_memory() {
    for step in [1, 1 << 20, 1 << 40] {
        let hashes: Vec<KeyHash> = (0..50_000).map(|key| KeyHash::from_well_mixed(key * step)).collect();
        for load in Load::ALL {
            match try_build(&hashes, load) {
                Ok(built) => assert_eq!(positives(&built, &hashes), 50_000),
                Err(reason) => assert_eq!(reason, FallbackReason::ConstructionFailed),
            }
        }
    }
}

#[test]
fn building_takes_no_more_memory_than_planned() {
    for load in Load::ALL {
        for count in [0, 1, 100, 3_000, 200_000] {
            let built = try_build(&sorted(hashes(3, count)), load).unwrap();
            let planned = build_bytes(count);
            assert!(built.peak_bytes <= planned + built.payload.capacity() as u64, "{load:?}, {count} keys");
        }
    }
}

#[test]
fn threads_do_not_change_a_byte() {
    let all = sorted(hashes(5, 300_000));
    let shape = Load::ALL[2].shape(all.len() as u64).unwrap();
    let [one, four] = [1, 4].map(|threads| build(&all, &shape, threads).unwrap());
    assert!(one.payload.as_slice() == four.payload.as_slice());
}

#[test]
fn a_payload_that_is_too_short_reads_as_may_be_present() {
    let built = try_build(&sorted(hashes(0, 3_000)), Load::ALL[0]).unwrap();
    let (absent, payload) = (hashes(1 << 40, 100), built.payload.as_slice());
    for short in [&[], &payload[..100], &payload[..payload.len() - 1]] {
        assert!(absent.iter().all(|&hash| built.shape.may_contain(short, hash)));
        let mut matches = [0; 2];
        built.shape.may_contain_batch(short, &absent, &mut matches);
        assert_eq!(matches, [u64::MAX, (1 << 36) - 1]);
    }
}

#[test]
fn sizes_are_those_of_the_page_and_grow_with_keys() {
    let lines = |load: Load, keys| {
        let shape = load.shape(keys).unwrap();
        shape.layout.layers().iter().map(|layer| layer.lines).collect::<Vec<_>>()
    };
    let [fast, middle, small] = Load::ALL;
    assert_eq!(lines(fast, 0), [1, 1, 1]);
    assert_eq!(lines(fast, 3_000), [53, 2, 1]);
    assert_eq!(lines(middle, 10_000), [157, 11, 1, 1]);
    assert_eq!(lines(small, 1_000_000), [14_881, 1_429, 144, 25]);
    for load in Load::ALL {
        let bytes = |keys| load.shape(keys).map(|shape| shape.payload_bytes());
        assert!((0..20_000).all(|keys| bytes(keys) <= bytes(keys + 1)), "{load:?}");
        assert!(bytes(u64::MAX).is_none() && bytes(1 << 37).is_some());
    }
}

#[test]
fn parameters_of_no_filter_are_refused_and_take_no_memory() {
    let decode = |params: &[u32]| LineRibbonShape::decode(&EncodedShape::new(params, 0));
    assert!(decode(&[1, 1]).is_ok() && decode(&[u32::MAX; MAX_LAYERS]).is_ok());
    for wrong in [&[][..], &[1], &[1; MAX_LAYERS + 1], &[0, 1], &[1, 0], &[1, 0, 1]] {
        assert!(decode(wrong).is_err(), "{wrong:?}");
    }
    let largest = decode(&[u32::MAX; MAX_LAYERS]).unwrap();
    let lines = u64::from(u32::MAX);
    assert_eq!(largest.payload_bytes(), (7 * 64 * lines + 6 * lines).next_multiple_of(8));
    assert!(largest.may_contain(&[0; 1_000], KeyHash::mix(1)));
}
