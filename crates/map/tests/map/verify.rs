//! Verification, page by page. The failure guarded against: a page that a faulty writer sealed with a right checksum
//! passes for sound, and hides keys.

use sstfilter_map::{MapError, MapVerification};

use crate::effort;
use crate::support::{Model, build, index_of, merge, model, options, reads};

const PAGE_BYTES: usize = 1 << 10;

pub(crate) fn verify(bytes: &[u8]) -> (MapVerification, Vec<MapError>) {
    let mut problems = Vec::new();
    let found = index_of(bytes).verify(reads(bytes), |problem| problems.push(problem)).unwrap();
    (found, problems)
}

/// Keys that more than 32 files have, and so many that 30 files have that pages outgrow their bytes.
pub(crate) fn crowded() -> Model {
    let mut model = model(8, 60, 60, 2);
    model.extend((100..130).map(|file| (file, (0..200).map(|key| key | 1 << 50).collect())));
    model
}

#[test]
fn sound_maps_have_no_problem_and_the_numbers_of_their_report() {
    for model in [model(7, 1, 1, 0), model(7, 5, 0, 0), model(7, 60, 300, 0), model(7, 60, 300, 3), crowded()] {
        let (bytes, report) = build(&model, options(24));
        let (found, problems) = verify(&bytes);
        assert_eq!(problems, []);
        assert_eq!(
            (found.sound_pages, found.entries, found.lists, found.outgrown_pages),
            (report.pages, report.entries, report.lists, report.outgrown_pages)
        );
        assert_eq!((found.damaged_pages, found.unknown_pages), (0, 0));
    }
    let (_, report) = build(&crowded(), options(24));
    assert!(report.lists > 0 && report.outgrown_pages > 0, "{report:?}");
}

/// Makes the checksum of the first page hold.
fn seal_first_page(map: &mut [u8]) {
    let (covered, checksum) = map[..PAGE_BYTES].split_last_chunk_mut().unwrap();
    *checksum = crc32c::crc32c(covered).to_le_bytes();
}

#[test]
fn wrong_fields_and_ranks_are_found_although_the_checksum_is_right() {
    let (bytes, report) = build(&model(9, 60, 100, 0), options(24));
    assert!(report.pages > 3 && report.outgrown_pages == 0);
    let page = &bytes[..PAGE_BYTES];
    let [fields, lines] = [page[PAGE_BYTES - 32..].first_chunk::<4>(), bytes.last_chunk::<60>().unwrap().first_chunk()]
        .map(|number| u32::from_le_bytes(*number.unwrap()) as usize);
    let field_bits = usize::from(bytes[bytes.len() - 32 + 22]);
    let in_fields = lines * 64 * 8..lines * 64 * 8 + fields * field_bits;
    let in_ranks = (0..lines).flat_map(|line| line * 512 + 480..line * 512 + 511);
    for bit in in_fields.chain(in_ranks).step_by(effort::strides(1, 61)) {
        let mut forged = bytes.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        seal_first_page(&mut forged);
        let (_, problems) = verify(&forged);
        assert!(!problems.is_empty(), "bit {bit}");
    }
}

/// A lookup of its keys would find nothing.
// promise: file-maps
#[test]
fn an_emptied_line_is_found_although_the_checksum_is_right() {
    let (mut forged, _) = build(&model(9, 60, 100, 0), options(24));
    let lines = u32::from_le_bytes(*forged.last_chunk::<60>().unwrap().first_chunk().unwrap()) as usize;
    // All but the rank, in the last line: no later line shows that entries are missing.
    let last = &mut forged[lines * 64 - 64..lines * 64 - 4];
    assert_ne!(last, [0; 60]);
    last.fill(0);
    seal_first_page(&mut forged);
    let (found, problems) = verify(&forged);
    assert_eq!((found.damaged_pages, problems.len()), (1, 1));
}

#[test]
fn unknown_pages_are_counted_and_are_no_damage() {
    let (mut bytes, _) = build(&model(10, 20, 300, 0), options(24));
    bytes[100] ^= 1;
    let (merged, report) = merge(&[&bytes], options(24));
    let (found, problems) = verify(&merged);
    assert_eq!(problems, []);
    assert!(found.unknown_pages > 0 && found.unknown_pages == report.unknown_pages);
}
