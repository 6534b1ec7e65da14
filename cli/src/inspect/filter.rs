//! A filter block's trailer, field by field.

use core::fmt;

use serde::Serialize;
use sstfilter::FilterBlock;

/// All that a filter block says of itself, and what follows from it.
#[derive(Debug, Serialize)]
pub(super) struct FilterFields {
    format_version: u8,
    kind: &'static str,
    kind_code: u8,
    requested: &'static str,
    requested_code: u8,
    reason: &'static str,
    hash: String,
    hash_id: u8,
    hash_seed: String,
    /// Fingerprint of the id of the file that the block is bound to.
    file_fingerprint: Option<String>,
    salt: u8,
    keys: u64,
    block_bytes: u64,
    payload_bytes: u64,
    payload_checksum: String,
    pub(super) checksum_state: String,
    shape: Vec<(&'static str, String)>,
    bits_per_key: Option<f64>,
    expected_fpr: f64,
    fill_ratio: Option<f64>,
}

impl FilterFields {
    pub(super) fn new<D: AsRef<[u8]>>(block: &FilterBlock<D>) -> Self {
        let info = block.info();
        let bits_per_key = info.bits_per_key();
        Self {
            format_version: info.format_version,
            kind: info.kind.name(),
            kind_code: info.kind.code(),
            requested: info.requested.name(),
            requested_code: info.requested.code(),
            reason: info.reason.as_str(),
            hash: info.hash.to_string(),
            hash_id: info.hash.id.code(),
            hash_seed: format!("{:#018x}", info.hash.seed),
            file_fingerprint: info.file.map(|file| format!("{:#018x}", file.fingerprint())),
            salt: info.salt,
            keys: info.keys,
            block_bytes: info.block_bytes,
            payload_bytes: info.payload_bytes,
            payload_checksum: format!("{:#010x}", info.payload_checksum),
            checksum_state: block.verify().map_or_else(|error| error.to_string(), |()| "ok".to_owned()),
            bits_per_key: bits_per_key.is_finite().then_some(bits_per_key),
            expected_fpr: info.expected_fpr,
            fill_ratio: block.fill_ratio(),
            shape: info.shape,
        }
    }

    pub(super) fn is_sound(&self) -> bool {
        self.checksum_state == "ok"
    }
}

impl fmt::Display for FilterFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::units::{bytes, grouped, percent};
        let mut field = |name: &str, value: String| writeln!(f, "    {name:<17} {value}");
        field("kind", format!("{} ({})", self.kind, self.kind_code))?;
        field("requested kind", format!("{} ({})", self.requested, self.requested_code))?;
        field("reason", self.reason.to_owned())?;
        field("keys", grouped(self.keys))?;
        field("block", format!("{} bytes ({})", grouped(self.block_bytes), bytes(self.block_bytes)))?;
        field("payload", format!("{} bytes", grouped(self.payload_bytes)))?;
        field(
            "bits per key",
            self.bits_per_key.map_or_else(|| "none: no keys".to_owned(), |bits| format!("{bits:.3}")),
        )?;
        field("expected rate", percent(self.expected_fpr))?;
        for (name, value) in &self.shape {
            field(name, value.clone())?;
        }
        if let Some(fill) = self.fill_ratio {
            field("fill", percent(fill))?;
        }
        field("hash", self.hash.clone())?;
        let file = self.file_fingerprint.as_ref();
        field("bound to", file.map_or_else(|| "no file".to_owned(), |file| format!("the file of fingerprint {file}")))?;
        field("salt", self.salt.to_string())?;
        field("format version", self.format_version.to_string())?;
        field("payload checksum", format!("{} ({})", self.payload_checksum, self.checksum_state))
    }
}
