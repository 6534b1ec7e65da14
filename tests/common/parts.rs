//! Blocks whose checksums hold and whose fields do not. Only an engine's author or a forger writes such blocks.

/// A block in its parts, which can be changed.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) payload: Vec<u8>,
    /// Added to the number of words that the payload has.
    pub(crate) more_words: u32,
    pub(crate) params: Vec<u32>,
    /// Parts of keys and file fingerprint.
    pub(crate) between: Vec<u8>,
    /// Without the checksum.
    pub(crate) trailer: [u8; 28],
}

impl Parts {
    /// The parts of a block that has no parts of keys and is not bound to a file.
    pub(crate) fn of_block(block: &[u8]) -> Self {
        let (rest, trailer) = block.split_at(block.len() - 32);
        let (payload, params) = rest.split_at(rest.len() - 4 * usize::from(trailer[24] >> 4));
        let params = params.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let trailer = *trailer.first_chunk().unwrap();
        Self { payload: payload.to_vec(), more_words: 0, params, between: Vec::new(), trailer }
    }

    pub(crate) fn set_keys(&mut self, keys: u64) {
        self.trailer[16..21].copy_from_slice(&keys.to_le_bytes()[..5]);
    }

    /// The whole block. Checksums, *payload-words* and *param-words* are those of the parts.
    pub(crate) fn seal(mut self) -> Vec<u8> {
        let words = u32::try_from(self.payload.len() / 8).unwrap().wrapping_add(self.more_words);
        self.trailer[8..12].copy_from_slice(&words.to_le_bytes());
        self.trailer[12..16].copy_from_slice(&crc32c::crc32c(&self.payload).to_le_bytes());
        self.trailer[24] = self.trailer[24] & 15 | u8::try_from(self.params.len()).unwrap() << 4;
        let params = self.params.iter().flat_map(|word| word.to_le_bytes());
        let tail: Vec<u8> = params.chain(self.between).chain(self.trailer).collect();
        [&self.payload[..], &tail, &crc32c::crc32c(&tail).to_le_bytes()].concat()
    }
}
