//! Exercises file maps: any bytes, these bytes under checksums that hold, and maps of any files, merged, cut down
//! and damaged; then maps of writes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use sstfilter::{FileId, Filters, KeyHash};
use sstfilter_map::{
    FileMap, LocalId, Lookups, MapAnswer, MapBuilder, MapIndex, MapMerge, MapOptions, WriteId, WriteSet, Writes,
};

/// The prefixes of each file, by its fingerprint.
type Model = BTreeMap<u64, BTreeSet<u64>>;

/// Bytes after the covered files: numbers, the map's fingerprint, the trailer.
const END_BYTES: usize = 60;

/// Loads the bytes as a map, then builds maps from them.
pub fn exercise(bytes: &[u8]) {
    load(bytes);
    let sealed = sealed(bytes);
    load(&sealed);
    let _ = build_and_damage(&mut Unstructured::new(bytes));
}

/// The bytes with the magic number, and checksums of the pages and of the end that hold.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let Some(end) = bytes.len().checked_sub(END_BYTES) else { return out };
    let (before, end) = out.split_at_mut(end);
    end[53] = 0x11;
    end[54..56].copy_from_slice(b"SM");
    let files = u32::from_le_bytes([end[36], end[37], end[38], end[39]]) as usize;
    let page_bytes = 1_usize << (end[51] % 16 + 6);
    if let Some(covered) = files.checked_mul(16).and_then(|bytes| before.len().checked_sub(bytes)) {
        end[40..44].copy_from_slice(&crc32c::crc32c(&before[covered..]).to_le_bytes());
        for (number, page) in before[..covered].chunks_exact_mut(page_bytes).enumerate() {
            let at = page_bytes - 32;
            page[at + 12..at + 17].copy_from_slice(&(number as u64).to_le_bytes()[..5]);
            page[at + 20..at + 28].copy_from_slice(&end[20..28]);
            let sum = crc32c::crc32c(&page[..page_bytes - 4]);
            page[page_bytes - 4..].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let sum = crc32c::crc32c(&end[..END_BYTES - 4]);
    end[END_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Loads untrusted bytes, and exercises them in every way.
fn load(bytes: &[u8]) {
    let _ = MapIndex::end_bytes(bytes);
    let Ok(map) = FileMap::load_any(bytes) else { return };
    let files = map.index().files().len().max(map.index().writes().len());
    let hashes: Vec<_> = bytes.chunks(5).take(200).map(|chunk| Filters::default().hash(chunk)).collect();
    let single: Vec<_> = hashes.iter().map(|&hash| ids(map.candidates(hash), files)).collect();
    let mut batch = vec![Vec::new(); hashes.len()];
    map.candidates_each(&hashes, |position, found| batch[position] = ids(found, files));
    assert_eq!(single, batch, "a batch answers like single lookups");
    for (&hash, single) in hashes.iter().zip(&single) {
        assert_eq!(&read(map.index(), bytes, hash), single, "parts of a map answer like the whole");
    }
    let _ = map.problems().count();
    let set = WriteSet::new(&[Arc::new(FileMap::load_any(bytes).expect("loaded before"))]);
    for (hash, single) in hashes.iter().zip(&single) {
        for (id, writes) in map.index().writes().iter().enumerate() {
            assert!(!single.contains(&id) || set.of(*hash).may_be_in(*writes), "a set finds what its maps find");
        }
    }
    if let Ok(options) = MapOptions::with_prefix_bits(map.index().prefix_bits()) {
        let mut merge = MapMerge::new(options);
        if merge.add(map.index().clone(), reader(bytes)).is_ok() {
            let _ = merge.finish(FileId::from_fingerprint(1), &mut Vec::new());
        }
    }
}

fn reader<'a>(bytes: &'a [u8]) -> impl Fn(Range<u64>) -> std::io::Result<Cow<'a, [u8]>> + Sync + 'a {
    move |range| Ok(Cow::Borrowed(&bytes[range.start as usize..range.end as usize]))
}

fn ids(found: MapAnswer<'_>, files: usize) -> Vec<usize> {
    match found {
        MapAnswer::Only(ids) => ids.map(LocalId::index).inspect(|&id| assert!(id < files)).collect(),
        MapAnswer::All => (0..files).collect(),
    }
}

/// Looks a hash up by reading parts of the map.
fn read(index: &MapIndex, bytes: &[u8], hash: KeyHash) -> Vec<usize> {
    let files = index.files().len().max(index.writes().len());
    let (mut lookups, mut answer) = (Lookups::new(index, &[hash]), None);
    for _ in 0..3 {
        for read in lookups.reads() {
            let part = index.open(&read, &bytes[read.range().start as usize..read.range().end as usize]).ok();
            lookups.answer(&read, part.as_ref(), |_, found| answer = Some(ids(found, files)));
        }
    }
    answer.expect("a lookup needs at most three reads")
}

fn build(filters: &Filters, model: &Model, options: MapOptions) -> Option<Vec<u8>> {
    let mut builder = MapBuilder::new(filters, options);
    for (&file, prefixes) in model {
        // Bits behind the prefix must not matter.
        let rest = 64 - options.prefix_bits();
        let hash = |prefix: &u64| KeyHash::from_well_mixed(prefix << rest | file & ((1 << rest) - 1));
        builder.add_file(FileId::from_fingerprint(file), prefixes.iter().map(hash).collect());
    }
    let mut bytes = Vec::new();
    builder.finish(FileId::from_fingerprint(1), &mut bytes).ok().map(|_| bytes)
}

fn assert_none_is_lost(map: &FileMap<impl AsRef<[u8]>>, model: &Model) {
    let bits = map.index().prefix_bits();
    for (&file, prefixes) in model {
        let id = map.index().local_id(FileId::from_fingerprint(file)).expect("covered");
        for prefix in prefixes {
            let hash = KeyHash::from_well_mixed(prefix << (64 - bits));
            assert!(map.candidates(hash).may_contain(id), "file {file:x} lost prefix {prefix:x}");
        }
    }
}

/// Builds a map of writes, number `file` to `file + 6` for each file of the model, and merges maps of single flushes.
fn exercise_writes(filters: &Filters, model: &Model, options: MapOptions, numbers: [u32; 3]) {
    let id = |number: u64| WriteId::new(1, number).expect("a small number");
    let writes = |file: u64| Writes::new(id(file), id(file + 6)).expect("it ascends");
    let [floor, file, other] = numbers.map(u64::from);
    let hashes = |prefixes: &BTreeSet<u64>| -> Vec<_> {
        prefixes.iter().map(|prefix| KeyHash::from_well_mixed(prefix << (64 - options.prefix_bits()))).collect()
    };
    let build = |covered: &[(Writes, Vec<KeyHash>)]| {
        let (mut builder, mut bytes) = (MapBuilder::new(filters, options), Vec::new());
        covered.iter().for_each(|(writes, hashes)| builder.add_writes(*writes, hashes.clone()));
        builder.finish(FileId::from_fingerprint(1), &mut bytes).ok().map(|_| bytes)
    };
    let leaves: Vec<_> = model.iter().filter_map(|(&file, own)| build(&[(writes(file), hashes(own))])).collect();
    let mut merge = MapMerge::new(options).with_floor(id(floor));
    for leaf in &leaves {
        let index = MapIndex::load_any(leaf, leaf.len() as u64).expect("sound");
        merge.add(index, reader(leaf)).expect("of the same options");
    }
    let mut merged = Vec::new();
    if merge.finish(FileId::from_fingerprint(1), &mut merged).is_err() {
        return;
    }
    let mut coalesced = Vec::<(Writes, Vec<KeyHash>)>::new();
    for (&file, own) in model {
        match coalesced.last_mut() {
            Some((before, all)) if writes(file).last() < id(floor) => {
                *before = before.including(writes(file));
                all.extend(hashes(own));
            }
            _ => coalesced.push((writes(file), hashes(own))),
        }
    }
    assert!(build(&coalesced).is_none_or(|built| built == merged), "a merge has the bytes of a build");
    load(&merged);
    let maps = [merged].map(|map| Arc::new(FileMap::load_any(map).expect("sound")));
    let set = WriteSet::new(&maps);
    for (&own, prefixes) in model {
        for hash in hashes(prefixes) {
            let found = set.of(hash);
            assert!(found.may_be_in(writes(own)), "flush {own} lost {hash:?}");
            assert!(found.may_be_in(writes(own).including(writes(file % 1_000))));
            assert!(found.may_be_in(Writes::of(id(model.len() as u64 * 7 + 1 + other))), "not covered");
        }
    }
}

fn build_and_damage(input: &mut Unstructured<'_>) -> Result<()> {
    let damage: [u32; 3] = input.arbitrary()?;
    let filters = Filters::default();
    let options = MapOptions::with_prefix_bits(input.int_in_range(8..=48)?).expect("in range");
    let page_bytes = 1 << input.int_in_range(10..=13)?;
    let options =
        options.with_page_bytes(page_bytes).expect("in range").with_files_per_key(input.int_in_range(1..=40)?);
    let files = input.int_in_range(1..=60_u64)?;
    let mask = (1 << options.prefix_bits()) - 1;
    let mut model: Model = (0..files).map(|file| (file * 7 + 1, BTreeSet::new())).collect();
    while !input.is_empty() {
        // A stretch of prefixes in a stretch of files: close prefixes fill lines, and many files make lists.
        let (prefix, count, from, of): (u64, u8, u8, u8) = input.arbitrary()?;
        for prefixes in model.values_mut().skip(from.into()).take(of.into()) {
            prefixes.extend((0..u64::from(count)).map(|step| prefix.wrapping_add(step) & mask));
        }
    }
    exercise_writes(&filters, &model, options, damage.map(|number| number % 1_000));
    let Some(bytes) = build(&filters, &model, options) else { return Ok(()) };
    let map = FileMap::load(&bytes[..], &filters, FileId::from_fingerprint(1)).expect("sound");
    assert_eq!(map.problems().next(), None);
    assert_none_is_lost(&map, &model);
    load(&bytes);

    let (even, odd): (Model, Model) = model.clone().into_iter().partition(|(file, _)| file % 2 == 0);
    let halves: Vec<_> = [even, odd].iter().filter_map(|half| build(&filters, half, options)).collect();
    let mut merge = MapMerge::new(options);
    for half in &halves {
        let index = MapIndex::load_any(half, half.len() as u64).expect("sound");
        merge.add(index, reader(half)).expect("of the same options");
    }
    let mut merged = Vec::new();
    if merge.finish(FileId::from_fingerprint(1), &mut merged).is_ok() {
        assert!(merged == bytes, "a merge has the bytes of a build");
    }

    // Up to three bits: a checksum of 32 bits finds them.
    let mut damaged = bytes.clone();
    for bit in damage {
        let bit = bit as usize % (bytes.len() * 8);
        damaged[bit / 8] ^= 1 << (bit % 8);
    }
    if let Ok(map) = FileMap::load(&damaged[..], &filters, FileId::from_fingerprint(1)) {
        assert!(damaged == bytes || map.problems().next().is_some(), "damage is found");
        assert_none_is_lost(&map, &model);
    }
    Ok(())
}
