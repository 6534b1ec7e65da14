//! The fields of a range filter that `inspect` shows.

use core::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use sstfilter::{BlockError, KindId};
use sstfilter_range::{RangeInfo, RangeMap};

use super::RangeBlock;
use crate::units::{brief_percent, bytes, counted, grouped};

/// Lengths of ranges, in units, for which expected rates are shown.
const SHOWN_UNITS: [u64; 4] = [1, 1 << 5, 1 << 10, 1 << 20];

/// The fields of a range filter's trailer, and figures derived from them.
#[derive(Clone, Debug)]
pub(crate) struct RangeFields {
    info: RangeInfo,
    checksum_state: String,
}

impl RangeFields {
    /// Returns the fields of a block without a table.
    pub(crate) fn of_block(block: &RangeBlock) -> Self {
        Self::new(block.info.clone(), block.verify())
    }

    pub(crate) fn new(info: RangeInfo, verified: Result<(), BlockError>) -> Self {
        let checksum_state = verified.map_or_else(|error| error.to_string(), |()| "ok".to_owned());
        Self { info, checksum_state }
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.checksum_state == "ok"
    }

    /// Returns expected rates by length of ranges, or one rate without a length if it is the same for all lengths.
    fn expected_rates(&self) -> Vec<(Option<u64>, f64)> {
        match self.info.map {
            RangeMap::Hashed { .. } => SHOWN_UNITS.map(|units| (Some(units), self.info.expected_fpr(units))).to_vec(),
            // Ordered codes have one rate for ranges of all lengths.
            _ => vec![(None, self.info.expected_fpr(1))],
        }
    }

    /// Returns the fields that only this map has.
    fn map_fields(&self) -> Vec<(&'static str, Value)> {
        match self.info.map {
            RangeMap::Hashed { unit_shift, chunk_units, extractor_checksum, keys_outside } => vec![
                ("unit_shift", json!(unit_shift)),
                ("chunk_units", json!(chunk_units)),
                ("extractor_checksum", json!(extractor_checksum.map(|sum| format!("{sum:#010x}")))),
                ("keys_outside", json!(keys_outside)),
            ],
            RangeMap::Ordered { common_bytes, tails_bytes } => {
                vec![("common_bytes", json!(common_bytes)), ("tails_bytes", json!(tails_bytes))]
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the map's name.
pub(crate) fn map_name(info: &RangeInfo) -> &'static str {
    match info.map {
        RangeMap::Hashed { .. } => "hashed",
        RangeMap::Ordered { .. } => "ordered",
        _ => "unknown",
    }
}

/// Describes the ranges that the filter can exclude.
fn map_in_words(info: &RangeInfo) -> String {
    match info.map {
        RangeMap::Hashed { unit_shift, chunk_units, extractor_checksum, .. } => {
            let place = if extractor_checksum.is_some() { "after the prefix" } else { "at the start of the key" };
            let (integer, units) = (8 - unit_shift / 8, grouped(chunk_units));
            let unit = 1_u64 << (unit_shift % 8);
            format!(
                "hashed: ranges of up to {units} units of {unit} in a big-endian integer of {} {place}",
                counted(integer.into(), "byte")
            )
        }
        RangeMap::Ordered { .. } => "ordered: any keys, and ranges of any length".to_owned(),
        _ => "unknown".to_owned(),
    }
}

impl Serialize for RangeFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let info = &self.info;
        let rate = |(units, rate): (Option<u64>, f64)| json!({ "units": units, "expected_fpr": rate });
        let fields = [
            ("kind", json!(KindId::RANGE.name())),
            ("kind_code", json!(KindId::RANGE.code())),
            ("map", json!(map_name(info))),
            ("hash", json!(info.hash.to_string())),
            ("hash_id", json!(info.hash.id.code())),
            ("hash_seed", json!(format!("{:#018x}", info.hash.seed))),
            ("file_fingerprint", json!(info.file.map(|file| format!("{:#018x}", file.fingerprint())))),
            ("keys", json!(info.keys)),
            ("codes", json!(info.codes)),
            ("lines", json!(info.lines)),
            ("low_bits", json!(info.low_bits)),
            ("key_bytes", json!(info.key_bytes)),
            ("block_bytes", json!(info.block_bytes)),
            ("payload_bytes", json!(info.payload_bytes)),
            ("payload_checksum", json!(format!("{:#010x}", info.payload_checksum))),
            ("checksum_state", json!(self.checksum_state)),
            // Null for a block without keys: JSON has no NaN.
            ("bits_per_key", json!(info.bits_per_key())),
            ("expected_rates", self.expected_rates().into_iter().map(rate).collect()),
        ];
        serializer.collect_map(fields.into_iter().chain(self.map_fields()))
    }
}

impl fmt::Display for RangeFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = &self.info;
        let mut field = |name: &str, value: String| writeln!(f, "    {name:<17} {value}");
        field("kind", format!("{} ({})", KindId::RANGE, KindId::RANGE.code()))?;
        field("map", map_in_words(info))?;
        field("keys", grouped(info.keys))?;
        field("codes", grouped(info.codes))?;
        field("block", format!("{} bytes ({})", grouped(info.block_bytes), bytes(info.block_bytes)))?;
        field("payload", format!("{} bytes", grouped(info.payload_bytes)))?;
        let bits_per_key = format!("{:.3}", info.bits_per_key());
        field("bits per key", if info.keys == 0 { "none: no keys".to_owned() } else { bits_per_key })?;
        for (units, rate) in self.expected_rates() {
            let ranges = units.map_or("any length".to_owned(), |units| counted(units, "unit"));
            field("expected rate", format!("{} for ranges of {ranges}", brief_percent(rate)))?;
        }
        field("lines", format!("{} of 64 bytes", grouped(info.lines)))?;
        field("low bits", info.low_bits.to_string())?;
        let length = info.key_bytes.map(|length| counted(length, "byte"));
        field("key length", length.unwrap_or_else(|| "various".to_owned()))?;
        match info.map {
            RangeMap::Hashed { extractor_checksum, keys_outside, .. } => {
                let prefix = extractor_checksum.map(|sum| format!("of the extractor with name checksum {sum:#010x}"));
                field("prefix", prefix.unwrap_or_else(|| "none".to_owned()))?;
                field("keys outside", grouped(keys_outside.into()))?;
            }
            RangeMap::Ordered { common_bytes, tails_bytes } => {
                field("common bytes", grouped(common_bytes.into()))?;
                field("separator tails", format!("{} bytes", grouped(tails_bytes.into())))?;
            }
            _ => {}
        }
        field("hash", info.hash.to_string())?;
        let file = info.file.map(|file| format!("the file with fingerprint {:#018x}", file.fingerprint()));
        field("bound to", file.unwrap_or_else(|| "no file".to_owned()))?;
        field("payload checksum", format!("{:#010x} ({})", info.payload_checksum, self.checksum_state))
    }
}
