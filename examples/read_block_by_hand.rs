//! Reads a filter block with only FORMAT.md as a guide, like a tool in another language: no code of this library, only
//! a checksum, a hash and a loop.
//!
//! ```sh
//! cargo run --release --example read_block_by_hand -- [BLOCK [KEY...]]
//! ```

use std::error::Error;

use crc32c::crc32c;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/v1/bloom-1000-keys-10-bits.block");

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let block = std::fs::read(arguments.next().as_deref().unwrap_or(FIXTURE))?;
    let mut keys: Vec<String> = arguments.collect();
    if keys.is_empty() {
        keys.extend(["key-00000000", "key-00000999", "absent-00000000"].map(str::to_owned));
    }
    let bloom = BlockedBloom::open(&block)?;
    println!(
        "{} keys in {} lines, {} probes, hash seed {:#x}",
        bloom.keys,
        bloom.lines.len(),
        bloom.probes,
        bloom.seed
    );
    for key in keys {
        let answer = if bloom.may_contain(key.as_bytes()) { "may be present" } else { "absent" };
        println!("{key}: {answer}");
    }
    Ok(())
}

/// Kind 1, as FORMAT.md specifies it.
struct BlockedBloom<'a> {
    lines: &'a [[u8; 64]],
    probes: u32,
    keys: u64,
    seed: u64,
}

impl<'a> BlockedBloom<'a> {
    /// Checks in the order of "Rules for readers": magic, version, parameter words, checksum, length, the kind's rules.
    fn open(block: &'a [u8]) -> Result<Self, Box<dyn Error>> {
        let trailer: &[u8; 32] = block.last_chunk().ok_or("shorter than a trailer")?;
        let byte = |at: usize| u64::from(trailer[at]);
        let number = |at: usize, bytes: usize| (0..bytes).fold(0, |sum, i| sum | byte(at + i) << (8 * i));
        require(&trailer[26..28] == b"SF", "magic SF")?;
        require(byte(25) == 1, "version 1")?;
        let tail_bytes = 32 + 4 * (trailer[24] >> 4) as usize;
        let payload_bytes = block.len().checked_sub(tail_bytes).ok_or("shorter than its tail")?;
        let (payload, tail) = block.split_at(payload_bytes);
        require(number(28, 4) == u64::from(crc32c(&tail[..tail_bytes - 4])), "the checksum of the trailer")?;
        require(number(8, 4) * 8 == payload.len() as u64, "the length of the payload")?;
        require(number(12, 4) == u64::from(crc32c(payload)), "the checksum of the payload")?;
        require(byte(21) == 1 && trailer[24] == 0x10, "blocked Bloom, with one parameter word and salt 0")?;
        require(trailer[23] >> 4 == 1, "hash id 1: XXH3-64 with the seed in the trailer")?;
        let (lines, rest) = payload.as_chunks();
        require(!lines.is_empty() && rest.is_empty(), "whole lines of 64 bytes")?;
        let probes = u32::from(tail[0]);
        require((1..=16).contains(&probes) && tail[1..4] == [0; 3], "1 to 16 probes")?;
        Ok(Self { lines, probes, keys: number(16, 5), seed: number(0, 8) })
    }

    /// Probes as specified by "Hashing" and "Blocked Bloom".
    fn may_contain(&self, key: &[u8]) -> bool {
        let hash = xxh3_64_with_seed(key, self.seed);
        let line = (u128::from(hash) * self.lines.len() as u128) >> 64;
        let Some(line) = usize::try_from(line).ok().and_then(|line| self.lines.get(line)) else { return true };
        let bytes = hash.to_le_bytes();
        let x = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let mut multiplier = 1_u32;
        (0..16_u32).all(|lane| {
            multiplier = multiplier.wrapping_mul(0x9e37_79b9);
            let y = x.wrapping_mul(multiplier);
            let word = (lane ^ ((y >> 31) * 8)) as usize;
            let bit = (y >> 26) & 31;
            let is_set = line[word * 4 + bit as usize / 8] >> (bit % 8) & 1 == 1;
            is_set || lanes(x, self.probes) >> lane & 1 == 0
        })
    }
}

/// Which of the 16 lanes a key uses.
fn lanes(x: u32, probes: u32) -> u32 {
    const BASE: [u8; 9] = [0x00, 0x01, 0x03, 0x0b, 0x17, 0x2f, 0x3f, 0x7f, 0xff];
    let (a, b) = if probes <= 8 { (probes, 0) } else { (probes.div_ceil(2), probes / 2) };
    let rotated = |base: u32, by: u32| u32::from(BASE[base as usize].rotate_left(by & 7));
    rotated(a, x) | rotated(b, x >> 3) << 8
}

fn require(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("expected {what}: treat the key as one that may be present")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_shorter_than_its_parameter_words_is_refused() {
        let mut forged = [0; 32];
        forged[24] = 0xf0;
        forged[25] = 1;
        forged[26..28].copy_from_slice(b"SF");
        assert!(BlockedBloom::open(&forged).is_err());
        assert!(BlockedBloom::open(&forged[1..]).is_err());
    }

    #[test]
    fn the_fixture_holds_its_keys() {
        let block = std::fs::read(FIXTURE).unwrap();
        let bloom = BlockedBloom::open(&block).unwrap();
        assert!(bloom.may_contain(b"key-00000999") && !bloom.may_contain(b"absent-00000000"));
    }
}
