//! XXPH3: the preview of XXH3 that RocksDB froze, 64 bits, seed 0.
//!
//! RocksDB took the hash from xxHash 0.7.2, before XXH3 was released, and keeps that version because it is part of the
//! format of its filters (`util/xxph3.h`, `util/hash.cc`). Its values differ from released XXH3 at every length: the
//! last mixing step has another multiplier, keys of up to 16 bytes are mixed in other ways, and long keys add each
//! lane's data to that lane. RocksDB's block checksums use released XXH3.

const PRIME32_1: u64 = 0x9e37_79b1;
const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME32_3: u64 = 0xc2b2_ae3d;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
/// Released XXH3 has `0x1656_6791_9e37_79f9` in its last step.
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME64_5: u64 = 0x27d4_eb2f_1656_67c5;

/// Each stripe of a block reads the secret 8 bytes further on.
const SECRET_STEP: usize = 8;
const STRIPE_BYTES: usize = 64;
const STRIPES_PER_BLOCK: usize = (SECRET.len() - STRIPE_BYTES) / SECRET_STEP;
const BLOCK_BYTES: usize = STRIPES_PER_BLOCK * STRIPE_BYTES;

/// `kSecret` of xxHash, identical in the preview and in releases.
#[rustfmt::skip]
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

type Lanes = [u64; 8];

/// Returns the hash of `key`.
pub(super) fn hash(key: &[u8]) -> u64 {
    match key.len() {
        0 => fold(secret(0), PRIME64_2),
        1..=3 => upto_3(key),
        4..=8 => upto_8(key),
        9..=16 => upto_16(key),
        17..=128 => upto_128(key),
        129..=240 => upto_240(key),
        _ => long(key),
    }
}

fn upto_3(key: &[u8]) -> u64 {
    let length = key.len();
    let byte = |at: usize| u64::from(key[at]);
    let combined = byte(0) | byte(length / 2) << 8 | byte(length - 1) << 16 | (length as u64) << 24;
    avalanche((combined ^ u64::from(word32(&SECRET, 0))).wrapping_mul(PRIME64_1))
}

fn upto_8(key: &[u8]) -> u64 {
    let length = key.len();
    let ends = u64::from(word32(key, 0)) | u64::from(word32(key, length - 4)) << 32;
    let keyed = ends ^ secret(0);
    let mixed = (length as u64).wrapping_add((keyed ^ keyed >> 51).wrapping_mul(PRIME32_1));
    avalanche((mixed ^ mixed >> 47).wrapping_mul(PRIME64_2))
}

fn upto_16(key: &[u8]) -> u64 {
    let length = key.len();
    let low = word(key, 0) ^ secret(0);
    let high = word(key, length - 8) ^ secret(8);
    avalanche((length as u64).wrapping_add(low).wrapping_add(high).wrapping_add(fold(low, high)))
}

/// Mixes pairs of 16 bytes from both ends inwards.
fn upto_128(key: &[u8]) -> u64 {
    let length = key.len();
    let mut sum = (length as u64).wrapping_mul(PRIME64_1);
    for pair in (0..=(length - 1) / 32).rev() {
        sum = sum.wrapping_add(mix16(key, 16 * pair, 32 * pair));
        sum = sum.wrapping_add(mix16(key, length - 16 * (pair + 1), 32 * pair + 16));
    }
    avalanche(sum)
}

fn upto_240(key: &[u8]) -> u64 {
    /// Offsets in the secret: after its first 128 bytes are used, and for the last 16 bytes of the key.
    const SECOND_SECRET: usize = 3;
    const LAST_SECRET: usize = 136 - 17;
    let length = key.len();
    let first = (0..8).map(|i| mix16(key, 16 * i, 16 * i));
    let rest = (8..length / 16).map(|i| mix16(key, 16 * i, 16 * (i - 8) + SECOND_SECRET));
    let sum = avalanche(first.fold((length as u64).wrapping_mul(PRIME64_1), u64::wrapping_add));
    let sum = rest.fold(sum, u64::wrapping_add);
    avalanche(sum.wrapping_add(mix16(key, length - 16, LAST_SECRET)))
}

/// Hashes keys above 240 bytes: eight lanes over stripes of 64 bytes.
fn long(key: &[u8]) -> u64 {
    /// Offsets in the secret for the scrambling, the last stripe, and the final merge. Two are odd, so that no two
    /// reads of the secret coincide.
    const SCRAMBLE: usize = SECRET.len() - STRIPE_BYTES;
    const LAST_STRIPE: usize = SCRAMBLE - 7;
    const MERGE: usize = 11;
    let mut lanes: Lanes = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
    for block in key.chunks(BLOCK_BYTES) {
        for (index, stripe) in block.chunks_exact(STRIPE_BYTES).enumerate() {
            accumulate(&mut lanes, stripe, SECRET_STEP * index);
        }
        if block.len() == BLOCK_BYTES {
            scramble(&mut lanes, SCRAMBLE);
        }
    }
    // The last stripe overlaps the one before. The preview skips it for whole stripes; released XXH3 always adds it.
    if !key.len().is_multiple_of(STRIPE_BYTES) {
        accumulate(&mut lanes, &key[key.len() - STRIPE_BYTES..], LAST_STRIPE);
    }
    let (pairs, _) = lanes.as_chunks::<2>();
    let merged = pairs
        .iter()
        .enumerate()
        .map(|(i, &[low, high])| fold(low ^ secret(MERGE + 16 * i), high ^ secret(MERGE + 16 * i + 8)));
    avalanche(merged.fold((key.len() as u64).wrapping_mul(PRIME64_1), u64::wrapping_add))
}

/// Adds a stripe. Released XXH3 adds the data of each lane to its neighbour.
fn accumulate(lanes: &mut Lanes, stripe: &[u8], secret_at: usize) {
    for (i, lane) in lanes.iter_mut().enumerate() {
        let data = word(stripe, 8 * i);
        let keyed = data ^ secret(secret_at + 8 * i);
        *lane = lane.wrapping_add(data).wrapping_add((keyed & 0xffff_ffff).wrapping_mul(keyed >> 32));
    }
}

fn scramble(lanes: &mut Lanes, secret_at: usize) {
    for (i, lane) in lanes.iter_mut().enumerate() {
        *lane = (*lane ^ *lane >> 47 ^ secret(secret_at + 8 * i)).wrapping_mul(PRIME32_1);
    }
}

fn mix16(key: &[u8], at: usize, secret_at: usize) -> u64 {
    fold(word(key, at) ^ secret(secret_at), word(key, at + 8) ^ secret(secret_at + 8))
}

/// Returns the exclusive or of the two halves of the 128-bit product.
#[expect(clippy::cast_possible_truncation, reason = "the halves of the product")]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

fn avalanche(hash: u64) -> u64 {
    let mixed = (hash ^ hash >> 37).wrapping_mul(PRIME64_3);
    mixed ^ mixed >> 32
}

fn secret(at: usize) -> u64 {
    word(&SECRET, at)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    //! If the hash differs from RocksDB's for one key length, every filter loses stored keys of that length.

    use super::hash;

    /// Published in RocksDB's `util/hash_test.cc`.
    #[test]
    fn published_hashes_of_short_keys_are_equal() {
        let published: [(&[u8], u64); 12] = [
            (b"", 5_999_572_062_939_766_020),
            (b"\x08", 583_283_813_901_344_696),
            (b"\x9a", 16_322_991_629_225_003_903),
            (b"\x4d\x76", 6_859_542_833_406_258_115),
            (b"\x30\x46\x0b", 11_404_699_285_340_020_889),
            (b"\x67\x53\x81\x1c", 9_010_661_983_527_562_386),
            (b"\xd0\x7a\x6e\xea\x56", 6_384_167_718_754_869_899),
            (b"\x5c\x5e\xe1\xa0\x73\x81", 17_358_142_495_308_219_330),
            (b"\xd3\xa5\x7c\x0e\xc0\x02\x07", 8_088_079_329_364_056_942),
            (b"\x31\x1b\x98\x75\x96\x22\xd3\x9a", 9_844_314_944_338_447_628),
            (b"\x1a\xb5\xd0\xfe\xab\xc3\x61\xb2\x99", 13_253_403_748_084_181_481),
            (b"\x22\x6f\x39\x1f\xf8\xdd\x4f\x52\x17\x94", 12_883_919_702_069_153_152),
        ];
        for (key, expected) in published {
            assert_eq!(hash(key), expected, "{key:02x?}");
        }
    }

    /// RocksDB's test also publishes one character for the hash of each prefix of three texts, repeated to 430 bytes:
    /// the remainder modulo 61.
    #[test]
    fn published_digests_of_all_lengths_to_429_are_equal() {
        const ALPHABET: &[u8; 61] = b"abcdefghijklmnopqrstuvwxyz123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        for (text, digests) in DIGESTS {
            assert_eq!(digests.len(), 430);
            let key: Vec<u8> = text.bytes().cycle().take(430).collect();
            for (length, digest) in digests.bytes().enumerate() {
                let remainder = usize::try_from(hash(&key[..length]) % 61).unwrap_or(usize::MAX);
                assert_eq!(ALPHABET[remainder], digest, "{length} bytes of {text}");
            }
        }
    }

    /// The published digests end before a whole block of 1,024 bytes. RocksDB's own `Hash64` printed these.
    #[test]
    fn keys_of_whole_blocks_hash_as_in_rocksdb() {
        let key: Vec<u8> = (0..9_000_u32).map(|i| (i * i * 31 + i * 7 + (i >> 8)).to_le_bytes()[0]).collect();
        let hashes = [
            (241, 0xd055_91ab_a961_d01b),
            (256, 0x51f5_3ecf_d920_914b),
            (512, 0x49fa_38ea_bf68_6222),
            (1_023, 0x1243_7b27_da26_32fb),
            (1_024, 0x588b_0313_8502_0197),
            (1_025, 0x8411_2c62_5ac7_922b),
            (2_048, 0x8d0b_7ab9_6478_2145),
            (2_049, 0xe20a_69dd_180f_ef9f),
            (3_000, 0x3848_42b1_da9d_3346),
            (8_192, 0xdda5_1fd0_ad47_f52c),
            (8_999, 0x4111_5c7b_50f2_c998),
        ];
        for (length, expected) in hashes {
            assert_eq!(hash(&key[..length]), expected, "{length} bytes");
        }
    }

    const DIGESTS: [(&str, &str); 3] = [
        (
            "foo",
            concat!(
                "cRhyWsY67B6klRA1udmOuiYuX7IthyGBKqbeosz2hzVglWCmQx8nEdnpkvPfYX56Up2OWOTVlTzfAoYwvtqKzjD8E9",
                "xttR2unelbXbIV67NUe6bOO23BxaSFRcA3njGu5cUWfgwOqNoTsszpuPvKRP6qaUR5VdoBkJUCFIefd7edlNK5mv6J",
                "YWaGdwxehg65hTkTmjZoPKxTZo4PLyzbL9U4xt12ITSfeP2MfBHuLI2z2pDlBb44UQKVMx27LEoAHsdLp3WfWfgH3s",
                "dRBRCHm33UxCM4QmE2xJ7gqSvNwTeH7v9GlC8zWbGroyD3UVNeShMLx29O7tH1biemLULwAHyIw8zdtLMDpEJ8m2ic",
                "l6Lb4fDuuFNAs1GCVUthjK8CV8SWI8Rsz5THSwn5CGhpqUwSZcFknjwWIl5rNCvDxXJqYr",
            ),
        ),
        (
            "Rocks",
            concat!(
                "c1EeRkrzgOYWLA8PuhJrwTePJewoB44WdXYDfhbk3ZxTqqg25WlPExDl7IKIQLJvnA6gJxxn9TCSLkFGfJeXehaSS1",
                "GBqWSzfhEH4VXiXIUCuxJXxtKXcSC6FrNIQGTZbYDiUOLD6Y5inzrF9etwQhXUBanw55xAUdNMFQAm2GjJ6UDWp2mI",
                "SLiMMkLjANWMKLaZMqaFLX37qB4MRO1ooVRvzSvaNRSCLxlggQCasQq8icWjzf3HjBlZtU6pd4rkaUxSzHqmo9oM5M",
                "ghbU5Rtxg8wEfO7lVN5wdMONYecslQTwjZUpO1K3LDf3K3XK6sUXM6ShQQ3RHmMn2acB4YtTZ3QQcHYJSOHn2DuWpa",
                "Q8RqzX5lab92YmOLaCdOHq1BPsM7SIBzMdLgePNsJ1vvMALxAaoDUHPxoFLO2wx18IXnyX",
            ),
        ),
        (
            "RocksDB",
            concat!(
                "c1EeRkukbkb28wLTahwD2sfUhZzaBEnF8SVrxnPVB6A7b8CaAl3UKsDZISF92GSq2wDCukOqJgrsp7A3KZhDiLW8dF",
                "Xp8UPqPxMCRlMdZeVeJ2dJxrmA6cyt99zkQFj7ELbut6jAeVqARFnwfnWVXOsaLrq7bDCbMcns2DKvTaaqTCLMYxI7",
                "nhtLpFN1jR755FRQFcOzrrDbh7QhypjdvlYwcdAMSZgp9JMHxbM23wPSuH6BOFgxejz35PScZfhDPvTOxIy1jc3MZs",
                "WrMC3P324zNolO7JdWCX2I5UDKjjaEJfxbgVgJIXxtQGlmj2xkO5sPpjULQV4X2HlY7FQleJ4QRaJIB4buhCA4vUTF",
                "eMFlxCIYUpTCsal2qsmnGOWa8WCcefrohMjDj1fjzSvSaQwlpyR1GZHF2uPOoQagiCpHpm",
            ),
        ),
    ];
}
