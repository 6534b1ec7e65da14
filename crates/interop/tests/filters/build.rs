//! Builders of the filters that this package only reads: short and slow, from the descriptions that the readers follow.
//! `crates/interop/fixtures` contains filters that the engines wrote.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes of small filters, and halves of hashes"
)]

/// Bytes of a RocksDB Bloom filter of format version 5 or later: whole lines, then the trailer.
pub(crate) fn fast_local_bloom(hashes: &[u64], bits_per_key: f64, probes: u8) -> Vec<u8> {
    let lines = (hashes.len() as f64 * bits_per_key / 512.0).ceil().max(1.0) as u64;
    let mut filter = vec![0; 64 * lines as usize];
    for &hash in hashes {
        let line = 64 * (((hash & 0xffff_ffff) * lines) >> 32) as usize;
        let mut bits = (hash >> 32) as u32;
        for _ in 0..probes {
            let bit = (bits >> 23) as usize;
            filter[line + bit / 8] |= 1 << (bit % 8);
            bits = bits.wrapping_mul(0x9e37_79b9);
        }
    }
    filter.extend([0xff, 0, probes, 0, 0]);
    filter
}

/// Bytes of a RocksDB Bloom filter of format version 4 or earlier, or of Pebble: an odd number of lines, then the
/// trailer.
pub(crate) fn legacy_bloom(hashes: &[u64], bits_per_key: f64, probes: u8, line_bytes: usize) -> Vec<u8> {
    let lines = (hashes.len() as f64 * bits_per_key / (8 * line_bytes) as f64).ceil() as u32 | 1;
    let mut filter = vec![0; line_bytes * lines as usize];
    for &hash in hashes {
        let mut hash = hash as u32;
        let line = (hash % lines) as usize * line_bytes;
        let step = hash.rotate_right(17);
        for _ in 0..probes {
            let bit = hash as usize % (8 * line_bytes);
            filter[line + bit / 8] |= 1 << (bit % 8);
            hash = hash.wrapping_add(step);
        }
    }
    filter.push(probes);
    filter.extend(lines.to_le_bytes());
    filter
}

/// Bytes of a RocksDB Ribbon filter with a twentieth more slots than keys and `columns` columns of result;
/// `lower_blocks` blocks have one column fewer.
pub(crate) fn ribbon128(hashes: &[u64], columns: u32, lower_blocks: u32) -> Vec<u8> {
    let blocks = ((hashes.len() as f64 * 1.05 / 128.0).ceil() as u32).max(2);
    let solved = (0..=255).find_map(|seed| solve(hashes, blocks, seed).map(|solution| (seed, solution)));
    let (seed, solution) = solved.expect("one of 256 seeds gives equations that have a solution");
    let mut filter = Vec::new();
    for (block, slots) in solution.chunks(128).enumerate() {
        let block_columns = columns - u32::from((block as u32) < lower_blocks);
        for column in 0..block_columns {
            let bits = slots.iter().enumerate().map(|(slot, row)| u128::from(row >> column & 1) << slot);
            filter.extend(bits.fold(0, |segment, bit| segment | bit).to_le_bytes());
        }
    }
    filter.extend([0xfe, seed]);
    filter.extend(&blocks.to_le_bytes()[..3]);
    filter
}

/// The result row of each slot, by Gaussian elimination on the fly and back substitution.
fn solve(hashes: &[u64], blocks: u32, seed: u8) -> Option<Vec<u32>> {
    let slots = 128 * blocks as usize;
    let (mut coefficients, mut results) = (vec![0_u128; slots], vec![0_u32; slots]);
    for &hash in hashes {
        let (mut slot, mut row, mut result) = equation(hash, slots as u64 - 127, seed);
        while coefficients[slot] != 0 {
            row ^= coefficients[slot];
            result ^= results[slot];
            if row == 0 {
                break;
            }
            slot += row.trailing_zeros() as usize;
            row >>= row.trailing_zeros();
        }
        match (row, result) {
            (0, 0) => {}
            (0, _) => return None,
            _ => (coefficients[slot], results[slot]) = (row, result),
        }
    }
    for slot in (0..slots).rev() {
        let mut later = coefficients[slot] & !1;
        while later != 0 {
            results[slot] ^= results[slot + later.trailing_zeros() as usize];
            later &= later - 1;
        }
    }
    Some(results)
}

/// The start, coefficients and result of a key.
fn equation(hash: u64, starts: u64, seed: u8) -> (usize, u128, u32) {
    let mixed = u64::from(seed).wrapping_mul(0xc782_19a2_3eea_dd03);
    let raw_seed = (mixed ^ (mixed & 0xf0f0_f0f0_f0f0_f0f0) >> 4) & 0xffff_ffff;
    let seeded = (hash ^ raw_seed).wrapping_mul(0x6193_d459_236a_3a0d);
    let start = ((u128::from(seeded) * u128::from(starts)) >> 64) as usize;
    let row = seeded.wrapping_mul(0xc28f_8282_2b65_0bed);
    let coefficients = u128::from(row) << 64 | u128::from(row ^ 0xc367_844a_6e52_731d) | 1;
    (start, coefficients, row.swap_bytes() as u32)
}
