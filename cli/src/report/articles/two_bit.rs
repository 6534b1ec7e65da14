//! Floe's filter: 256 KiB, a quarter of a million keys, and the bits of a key in one word.

use sstfilter::{HashIdentity, TwoBitBloom, TwoBitOptions, WordLayout};

use super::{FLOE, Figure, Row, Verdict};
use crate::report::effort::Effort;
use crate::report::keys;
use crate::units::{grouped, percent};

const BYTES: u64 = 256 << 10;
const KEYS: u64 = 256 << 10;

/// The rate at which the article counts how many keys there is room for.
const ROOM_RATE: f64 = 0.05;

/// Layout, bits per key, and the published room. The article's first is its filter of one bit.
const ROOM: [(WordLayout, f64); 4] = [
    (WordLayout::FloeOneBit, 100_000.0),
    (WordLayout::TwoBits, 253_000.0),
    (WordLayout::ThreeBits, 306_000.0),
    (WordLayout::FourBits, 320_000.0),
];

pub(super) fn rows(effort: &Effort) -> anyhow::Result<Vec<Row>> {
    let rate = |layout, what: &str, published, right: &str| -> anyhow::Result<Row> {
        let filter = filled(layout, KEYS)?;
        Ok(Row::from(Figure {
            article: FLOE,
            what: what.to_owned(),
            published,
            ours: keys::observed_fpr(&filter, effort.most_probes),
            tolerance: 0.03,
            show: percent,
            right: right.to_owned(),
        }))
    };
    let mut rows = vec![
        rate(WordLayout::FloeOneBit, "One bit a key, 256 K keys in 256 KiB", 0.1168, "1 - exp(-1/8) is 11.75 %")?,
        rate(
            WordLayout::FloeTwoBits,
            "Two bits a key in one word of 32",
            0.0569,
            "the two are at most 31 apart, not at least 32, and one key in 32 sets only one",
        )?,
        beside(
            effort,
            WordLayout::TwoBits,
            "the wider word lets fewer through, and costs nothing on a machine of 64 bits",
        )?,
        beside(
            effort,
            WordLayout::FourBits,
            "more than two bits still fit one word and one atomic operation, against what the article says",
        )?,
    ];
    for (layout, published) in ROOM {
        let room = room(layout)?;
        let observed = keys::observed_fpr(&filled(layout, room)?, effort.most_probes / 5);
        rows.push(Row::from(Figure {
            article: FLOE,
            what: format!("Keys that 256 KiB hold at 5 % with {} a key", bits(layout.bits_per_key())),
            published,
            ours: room as f64,
            tolerance: 0.1,
            show: |keys| format!("{} K", (keys / 1_000.0).round()),
            right: format!("{} keys, computed; {} observed with as many", grouped(room), percent(observed)),
        }));
    }
    Ok(rows)
}

/// A layout of ours that the article has no figure of.
fn beside(effort: &Effort, layout: WordLayout, right: &str) -> anyhow::Result<Row> {
    let observed = keys::observed_fpr(&filled(layout, KEYS)?, effort.most_probes);
    Ok(Row {
        article: FLOE,
        what: format!("{} a key in one word of 64", bits(layout.bits_per_key())),
        published: "no figure".to_owned(),
        ours: percent(observed),
        verdict: Verdict::Unpublished,
        right: right.to_owned(),
    })
}

fn bits(bits: u32) -> String {
    format!("{bits} bit{}", if bits == 1 { "" } else { "s" })
}

fn options(layout: WordLayout) -> anyhow::Result<TwoBitOptions> {
    Ok(TwoBitOptions::default().with_bytes(BYTES)?.with_layout(layout))
}

fn filled(layout: WordLayout, count: u64) -> anyhow::Result<TwoBitBloom> {
    let filter = TwoBitBloom::new(HashIdentity::default(), options(layout)?)?;
    filter.insert_all(&keys::present(0, count));
    Ok(filter)
}

/// The most keys of which a filter of the layout expects at most 5 %.
fn room(layout: WordLayout) -> anyhow::Result<u64> {
    let options = options(layout)?;
    let (mut enough, mut too_many) = (0, 1 << 20);
    while too_many - enough > 1 {
        let middle = u64::midpoint(enough, too_many);
        if options.expected_fpr(middle) <= ROOM_RATE {
            enough = middle;
        } else {
            too_many = middle;
        }
    }
    Ok(enough)
}
