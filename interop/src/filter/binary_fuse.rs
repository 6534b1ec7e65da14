//! Pebble's binary fuse filter: its bytes are recognized, and not read yet.

use super::unsupported;
use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinaryFuse {}

impl BinaryFuse {
    pub(super) fn open(_bytes: &[u8]) -> Result<Self, Error> {
        Err(unsupported("binary fuse filter".to_owned()))
    }

    pub(super) fn may_contain(self, _bytes: &[u8], _hash: u64) -> bool {
        match self {}
    }

    pub(super) fn expected_fpr(self) -> f64 {
        match self {}
    }

    pub(super) fn parameters(self) -> Vec<(&'static str, String)> {
        match self {}
    }
}
