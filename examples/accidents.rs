//! Four accidents of a storage engine. How many keys does each lose: keys of a file that its filter calls absent?
//!
//! ```sh
//! cargo run --release --example accidents
//! ```
//!
//! A plain Bloom filter is bits and nothing else: any bytes of the right length answer. A block knows its file, its
//! hash and its checksum, so that a wrong one answers "may be present", and says what is wrong.

use std::hash::{DefaultHasher, Hash, Hasher};

use sstfilter::{BlockError, FileId, Filters, KeyHasher};

const KEYS: u32 = 10_000;

fn keys(file: u32) -> impl Iterator<Item = [u8; 4]> {
    (0..KEYS).map(move |key| (key * 2 + file).to_le_bytes())
}

/// The bits of a key in a plain Bloom filter of 10 bits per key, by double hashing.
fn plain_bits(seed: u64, key: [u8; 4]) -> impl Iterator<Item = (usize, u8)> {
    let [first, step] = [0, 1].map(|part| {
        let mut hasher = DefaultHasher::new();
        (seed, part, key).hash(&mut hasher);
        hasher.finish()
    });
    let positions = (0..7).map(move |probe| first.wrapping_add(step.wrapping_mul(probe)) % u64::from(KEYS * 10));
    positions.map(|position| ((position / 8) as usize, 1 << (position % 8)))
}

fn plain(seed: u64, file: u32) -> Vec<u8> {
    let mut bytes = vec![0; KEYS as usize * 10 / 8];
    keys(file).flat_map(|key| plain_bits(seed, key)).for_each(|(byte, bit)| bytes[byte] |= bit);
    bytes
}

fn filters(seed: u64) -> Filters {
    Filters::default().with_hasher(KeyHasher::with_seed(seed))
}

fn block(seed: u64, file: u32) -> Vec<u8> {
    let mut builder = filters(seed).builder(FileId::from_fingerprint(file.into()));
    keys(file).for_each(|key| builder.add_key(&key));
    builder.finish().block.map(Vec::from).unwrap_or_default()
}

/// An accident, the keys that each filter loses, and why sstfilter does not use its own.
struct Loss {
    accident: &'static str,
    plain: usize,
    sstfilter: usize,
    problem: String,
}

fn losses() -> Vec<Loss> {
    let damaged = |mut bytes: Vec<u8>| {
        bytes[7_000] ^= 0xff;
        bytes
    };
    let torn = |mut bytes: Vec<u8>| {
        bytes[4_096..].fill(0); // the first page was written
        bytes
    };
    let cases = [
        ("none", 1, plain(1, 0), block(1, 0)),
        ("another file's filter", 1, plain(1, 1), block(1, 1)),
        ("a damaged byte", 1, damaged(plain(1, 0)), damaged(block(1, 0))),
        ("a torn write", 1, torn(plain(1, 0)), torn(block(1, 0))),
        ("a changed hash seed", 2, plain(1, 0), block(1, 0)),
    ];
    let loss = |(accident, seed, bytes, sstfilter): (_, u64, Vec<u8>, _)| {
        let is_absent = |key: &[u8; 4]| plain_bits(seed, *key).any(|(byte, bit)| bytes[byte] & bit == 0);
        let filter = filters(seed).load(Some(sstfilter), FileId::from_fingerprint(0));
        Loss {
            accident,
            plain: keys(0).filter(is_absent).count(),
            sstfilter: keys(0).filter(|key| filter.probe(key).is_absent()).count(),
            problem: filter.problem().map(BlockError::to_string).unwrap_or_default(),
        }
    };
    cases.map(loss).into()
}

fn main() {
    println!("{:22} {:>18} {:>10}", "keys lost of 10,000", "plain Bloom filter", "sstfilter");
    for Loss { accident, plain, sstfilter, problem } in losses() {
        println!("{accident:22} {plain:>18} {sstfilter:>10}   {problem}");
        assert_eq!(sstfilter, 0, "no accident hides a key");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_accident_hides_a_key_and_the_readme_has_the_figures() {
        let row = |first: &str| {
            let readme = include_str!("../README.md");
            let line = readme.lines().find_map(|line| line.strip_prefix(first)).expect("a table of accidents");
            line.trim_end_matches(" |").split(" | ").map(str::to_owned).collect::<Vec<_>>()
        };
        let [names, plain, sstfilter] = ["| | ", "| plain Bloom filter | ", "| sstfilter | "].map(row);
        let losses = losses();
        assert!(losses[0].plain == 0 && losses[0].problem.is_empty(), "nothing has happened");
        for (at, loss) in losses[1..].iter().enumerate() {
            assert_eq!((loss.accident, loss.sstfilter), (names[at].as_str(), 0));
            assert_eq!(loss.plain.to_string(), plain[at].replace(',', ""));
            assert!(sstfilter[at] == "0" && !loss.problem.is_empty(), "{}", loss.accident);
        }
    }
}
