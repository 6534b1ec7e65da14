//! The bytes of a sidecar: a filter, names, and the trailer, which are the file's last 64 bytes.
//!
//! ```text
//!  0   8  length of the filter
//!  8  16  table id
//! 24   8  length of the table
//! 32   4  checksum of the table
//! 36   4  CRC32C of the filter
//! 40   4  length of the names
//! 44   4  format version
//! 48   4  CRC32C of the names
//! 52   8  magic, the bytes "SSTFLTSC"
//! 60   4  CRC32C of bytes 0 to 59
//! ```
//!
//! The last checksum covers 60 bytes in every version, so that it is compared before the version is believed: a flipped
//! bit is damage, never a newer release. That is why names have a checksum of their own.
//!
//! A name is a byte with its length, then its text; whole keys have the name of no bytes.
//!
//! The last two bytes of the magic are where a filter block has "SF", so that one look at a file's end tells them
//! apart.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::error::SidecarError;
use super::identity::TableIdentity;
use crate::block::{FilterBlock, LoadContext};
use crate::codec::{Fields, checksum, put_u32, put_u64};

/// Bytes of the trailer.
const TRAILER_BYTES: usize = 64;

type Trailer<'a> = Fields<'a, TRAILER_BYTES>;

/// Most bytes of the names: enough for 256 of the longest, of which a store has two or three.
const MAX_NAMES_BYTES: u32 = 64 << 10;

const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"SSTFLTSC";

/// Where the checksum of the trailer begins.
const CHECKSUM_AT: usize = 60;

/// A sidecar whose tail is sound: which table it is for, and what is in it. The [module](super) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    table: TableIdentity,
    filter_bytes: u64,
    filter_checksum: u32,
    key_parts: Vec<String>,
}

impl Sidecar {
    /// Bytes of a sidecar that hold `filter`: a filter block, bound to [`TableIdentity::file_id`], or a partitioned
    /// one. `key_parts` names what the filter holds of each key: whole keys by `""`, parts by the names of their
    /// extractors.
    ///
    /// [`SidecarBuilder`](super::SidecarBuilder) builds the filter, too.
    ///
    /// # Errors
    ///
    /// [`SidecarError::Field`] for a name of more than 255 bytes, or 65,536 bytes of names.
    pub fn seal(filter: &[u8], table: &TableIdentity, key_parts: &[&str]) -> Result<Bytes, SidecarError> {
        let names = encode_names(key_parts)?;
        let names_bytes = u32::try_from(names.len()).ok().filter(|&bytes| bytes <= MAX_NAMES_BYTES);
        let names_bytes = names_bytes.ok_or(SidecarError::Field {
            field: "length of the names",
            expected: "at most 65536",
            got: names.len() as u64,
        })?;
        let mut trailer = Vec::with_capacity(TRAILER_BYTES);
        put_u64(&mut trailer, filter.len() as u64);
        trailer.extend_from_slice(&table.id);
        put_u64(&mut trailer, table.bytes);
        put_u32(&mut trailer, table.checksum);
        put_u32(&mut trailer, checksum(filter));
        put_u32(&mut trailer, names_bytes);
        put_u32(&mut trailer, VERSION);
        put_u32(&mut trailer, checksum(&names));
        trailer.extend_from_slice(&MAGIC);
        let sum = checksum(&trailer);
        put_u32(&mut trailer, sum);
        Ok([filter, &names, &trailer].concat().into())
    }

    /// How many bytes at the end of a sidecar say what it is, from its last 64 bytes or more.
    ///
    /// # Errors
    ///
    /// Bytes that are no sidecar's, damage, or a newer version.
    pub fn tail_bytes(end: &[u8]) -> Result<u64, SidecarError> {
        Ok((TRAILER_BYTES + names_bytes(last_trailer(end)?.1)?) as u64)
    }

    /// The sidecar that ends with `tail`, if it was made for `table`. `tail` is as long as
    /// [`tail_bytes`](Self::tail_bytes) says, or longer; `file_bytes` is the length of the whole sidecar.
    ///
    /// # Errors
    ///
    /// Damage, a newer version, another length, or another table.
    pub fn open(tail: &[u8], file_bytes: u64, table: &TableIdentity) -> Result<Self, SidecarError> {
        let sidecar = Self::open_for_any_table(tail, file_bytes)?;
        if sidecar.table != *table {
            return Err(SidecarError::OtherTable { expected: *table, got: sidecar.table });
        }
        Ok(sidecar)
    }

    /// The sidecar that ends with `tail`, whichever table it was made for: for tools. Whoever probes for keys of a
    /// table needs [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// Damage, a newer version, or another length.
    pub fn open_for_any_table(tail: &[u8], file_bytes: u64) -> Result<Self, SidecarError> {
        let (before, trailer) = last_trailer(tail)?;
        let names_bytes = names_bytes(trailer)?;
        let tail_bytes = TRAILER_BYTES + names_bytes;
        let too_short = SidecarError::TooShort { expected: tail_bytes as u64, got: tail.len() as u64 };
        let (_, names) = before.split_at_checked(before.len().wrapping_sub(names_bytes)).ok_or(too_short)?;
        let (expected, got) = (trailer.u32::<48>(), checksum(names));
        if expected != got {
            return Err(SidecarError::NamesChecksum { expected, got });
        }
        let sidecar = Self::from_checked(names, trailer)?;
        if sidecar.filter_bytes.checked_add(tail_bytes as u64) != Some(file_bytes) {
            let expected = sidecar.filter_bytes.saturating_add(tail_bytes as u64);
            return Err(SidecarError::Length { expected, got: file_bytes });
        }
        Ok(sidecar)
    }

    /// Decodes names and a trailer whose checksums hold.
    fn from_checked(names: &[u8], trailer: Trailer<'_>) -> Result<Self, SidecarError> {
        Ok(Self {
            table: TableIdentity {
                id: trailer.array::<8, 16>(),
                bytes: trailer.u64::<24>(),
                checksum: trailer.u32::<32>(),
            },
            filter_bytes: trailer.u64::<0>(),
            filter_checksum: trailer.u32::<36>(),
            key_parts: decode_names(names)?,
        })
    }

    /// Loads the filter block that fills `filter`, the first [`filter_bytes`](Self::filter_bytes) bytes of the file. It
    /// is checked as [`FilterBlock::load`] does; the file id of `context` is set here.
    ///
    /// # Errors
    ///
    /// A filter that is damaged or not the sidecar's, and [`SidecarError::Filter`] for one that cannot be used: one of
    /// another hash, of an unknown kind, or without a known key.
    pub fn load_filter<'a, D: AsRef<[u8]>>(
        &self,
        filter: D,
        context: impl Into<LoadContext<'a>>,
    ) -> Result<FilterBlock<D>, SidecarError> {
        self.check_filter(filter.as_ref())?;
        Ok(FilterBlock::load(filter, context.into().with_file_id(self.table.file_id()))?)
    }

    /// Compares `filter` with its checksum in the trailer. What [`load_filter`](Self::load_filter) loads needs no
    /// further check.
    ///
    /// # Errors
    ///
    /// [`SidecarError::Length`] and [`SidecarError::FilterChecksum`].
    pub fn check_filter(&self, filter: &[u8]) -> Result<(), SidecarError> {
        if filter.len() as u64 != self.filter_bytes {
            return Err(SidecarError::Length { expected: self.filter_bytes, got: filter.len() as u64 });
        }
        let (expected, got) = (self.filter_checksum, checksum(filter));
        if expected == got { Ok(()) } else { Err(SidecarError::FilterChecksum { expected, got }) }
    }

    /// Where the sidecar of the table at `table` is: `000007.sst.filter` beside `000007.sst`.
    #[must_use]
    pub fn path_of(table: &Path) -> PathBuf {
        let mut path = table.as_os_str().to_owned();
        path.push(".filter");
        path.into()
    }

    /// The table that the sidecar was made for.
    #[must_use]
    pub const fn table(&self) -> &TableIdentity {
        &self.table
    }

    /// Bytes of the filter, with which the file begins.
    #[must_use]
    pub const fn filter_bytes(&self) -> u64 {
        self.filter_bytes
    }

    /// CRC32C of the filter's bytes.
    #[must_use]
    pub const fn filter_checksum(&self) -> u32 {
        self.filter_checksum
    }

    /// What the filter holds of each key: `""` stands for whole keys, and other names for extractors. A reader must not
    /// probe for parts that are not among them.
    pub fn key_parts(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.key_parts.iter().map(String::as_str)
    }
}

fn encode_names(names: &[&str]) -> Result<Vec<u8>, SidecarError> {
    let mut out = Vec::new();
    for name in names {
        let (field, expected, got) = ("length of a name", "at most 255", name.len() as u64);
        let length = u8::try_from(name.len()).map_err(|_| SidecarError::Field { field, expected, got })?;
        out.push(length);
        out.extend_from_slice(name.as_bytes());
    }
    Ok(out)
}

/// The names in `bytes`, which a checksum has covered.
fn decode_names(mut bytes: &[u8]) -> Result<Vec<String>, SidecarError> {
    let refused = |got: &[u8]| {
        let (field, expected) = ("names", "lengths and texts in UTF-8");
        SidecarError::Field { field, expected, got: got.len() as u64 }
    };
    let mut names = Vec::new();
    while let Some((&length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at_checked(length.into()).ok_or_else(|| refused(bytes))?;
        names.push(core::str::from_utf8(name).map_err(|_| refused(bytes))?.to_owned());
        bytes = rest;
    }
    Ok(names)
}

/// The trailer at the end of `bytes` and what stands before it, if it is sound and of this version.
fn last_trailer(bytes: &[u8]) -> Result<(&[u8], Trailer<'_>), SidecarError> {
    let too_short = SidecarError::TooShort { expected: TRAILER_BYTES as u64, got: bytes.len() as u64 };
    let (before, trailer) = Trailer::at_end_of(bytes).ok_or(too_short)?;
    let magic = trailer.array::<52, 8>();
    if magic != MAGIC {
        return Err(SidecarError::Magic { got: magic });
    }
    let (expected, got) = (trailer.u32::<CHECKSUM_AT>(), checksum(&trailer.array::<0, CHECKSUM_AT>()));
    if expected != got {
        return Err(SidecarError::TrailerChecksum { expected, got });
    }
    match trailer.u32::<44>() {
        VERSION => Ok((before, trailer)),
        0 => Err(SidecarError::Field { field: "version", expected: "at least 1", got: 0 }),
        got => Err(SidecarError::Version { expected: VERSION, got }),
    }
}

/// The length of the names that stand before `trailer`.
fn names_bytes(trailer: Trailer<'_>) -> Result<usize, SidecarError> {
    let got = trailer.u32::<40>();
    if got > MAX_NAMES_BYTES {
        let (field, expected) = ("length of the names", "at most 65536");
        return Err(SidecarError::Field { field, expected, got: got.into() });
    }
    Ok(got as usize)
}

#[cfg(test)]
mod tests {
    //! A table is rewritten in place, restored from a backup or given the number of one that is gone, and the sidecar
    //! of the earlier table is still there: its checksums hold, and it is negative for nearly every key of the new one.

    use super::*;
    use crate::error::BlockError;
    use crate::hash::KeyHasher;
    use crate::ids::FileId;
    use crate::policy::{BuildContext, KindPolicy};

    const TABLE: TableIdentity = TableIdentity::new([7; 16], 4_096, 0xfeed);

    fn block(file: FileId) -> Bytes {
        let context = BuildContext::new(&KeyHasher::default()).with_file_id(file);
        let mut builder = KindPolicy::default().builder(&context);
        (0..20_u32).for_each(|key| builder.add_key(&key.to_le_bytes()));
        builder.finish().block.unwrap()
    }

    fn sealed() -> Bytes {
        Sidecar::seal(&block(TABLE.file_id()), &TABLE, &["", "fixed-prefix:4"]).unwrap()
    }

    /// Every step of a reader, up to a filter that can be probed.
    fn load(file: &[u8], table: &TableIdentity) -> Result<FilterBlock<Bytes>, SidecarError> {
        let sidecar = Sidecar::open(file, file.len() as u64, table)?;
        let filter = Bytes::copy_from_slice(&file[..sidecar.filter_bytes() as usize]);
        sidecar.load_filter(filter, &KeyHasher::default())
    }

    #[test]
    fn a_sidecar_reads_back_as_written_from_its_tail_alone_or_whole() {
        let file = sealed();
        let tail_bytes = Sidecar::tail_bytes(&file[file.len() - 64..]).unwrap();
        assert_eq!(tail_bytes, 64 + 1 + 15);
        let tail = &file[file.len() - tail_bytes as usize..];
        let sidecar = Sidecar::open(tail, file.len() as u64, &TABLE).unwrap();
        assert_eq!(Sidecar::open(&file, file.len() as u64, &TABLE).unwrap(), sidecar);
        assert_eq!(sidecar.table(), &TABLE);
        assert_eq!(sidecar.key_parts().collect::<Vec<_>>(), ["", "fixed-prefix:4"]);
        assert_eq!(sidecar.filter_bytes() + tail_bytes, file.len() as u64);
        let filter = load(&file, &TABLE).unwrap();
        assert!((0..20_u32).all(|key| filter.may_contain(KeyHasher::default().hash(&key.to_le_bytes()))));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let file = sealed();
        for bit in 0..file.len() * 8 {
            let mut damaged = file.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let refused = load(&damaged, &TABLE).unwrap_err();
            assert!(!matches!(refused, SidecarError::Version { .. }), "bit {bit} reads as a newer release: {refused}");
        }
        for length in 0..file.len() {
            assert!(load(&file[..length], &TABLE).is_err(), "cut to {length}");
            assert!(load(&file[file.len() - length..], &TABLE).is_err(), "last {length}");
        }
    }

    #[test]
    fn a_table_of_another_id_length_or_checksum_is_another_table() {
        let others = [
            TableIdentity { id: [8; 16], ..TABLE },
            TableIdentity { bytes: 4_097, ..TABLE },
            TableIdentity { checksum: 0xfeee, ..TABLE },
        ];
        for other in others {
            let refused = load(&sealed(), &other).unwrap_err();
            assert_eq!(refused, SidecarError::OtherTable { expected: other, got: TABLE });
        }
    }

    #[test]
    fn a_filter_that_is_bound_to_no_table_or_to_another_is_refused_though_the_trailer_names_this_one() {
        for file in [FileId::from([8; 16]), FileId::from([9; 16])] {
            let refused = load(&Sidecar::seal(&block(file), &TABLE, &[""]).unwrap(), &TABLE).unwrap_err();
            assert!(
                matches!(refused, SidecarError::Filter(BlockError::FileMismatch { got: Some(_), .. })),
                "{refused}"
            );
        }
        let unbound = KindPolicy::default().builder(&BuildContext::new(&KeyHasher::default())).finish().block.unwrap();
        let refused = load(&Sidecar::seal(&unbound, &TABLE, &[""]).unwrap(), &TABLE).unwrap_err();
        assert!(matches!(refused, SidecarError::Filter(BlockError::FileMismatch { got: None, .. })), "{refused}");
    }

    /// The sidecar with other bytes at `offset` of its trailer, under a checksum that holds.
    fn resealed(offset: usize, bytes: &[u8]) -> SidecarError {
        let mut file = Sidecar::seal(&block(TABLE.file_id()), &TABLE, &[""]).unwrap().to_vec();
        let start = file.len() - TRAILER_BYTES;
        file[start + offset..start + offset + bytes.len()].copy_from_slice(bytes);
        let sum = checksum(&file[start..start + CHECKSUM_AT]);
        file[start + CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        load(&file, &TABLE).unwrap_err()
    }

    #[test]
    fn each_kind_of_damage_has_its_name() {
        let no_version = SidecarError::Field { field: "version", expected: "at least 1", got: 0 };
        assert_eq!(resealed(44, &[0; 4]), no_version);
        for version in [2, u32::MAX] {
            assert_eq!(resealed(44, &version.to_le_bytes()), SidecarError::Version { expected: 1, got: version });
        }
        assert!(matches!(resealed(52, b"sstfltsc"), SidecarError::Magic { .. }));
        assert!(matches!(resealed(48, &[1]), SidecarError::NamesChecksum { got: 0x527d_5351, .. }));
        for lengths in [[0, u64::MAX], [u64::MAX, u64::MAX - 63], [1 << 40, 1 << 40]] {
            for length in lengths {
                assert!(matches!(resealed(0, &length.to_le_bytes()), SidecarError::Length { .. }), "{length}");
            }
        }
        assert!(matches!(resealed(36, &[1, 2, 3, 4]), SidecarError::FilterChecksum { .. }));
        for names in [65_537, u32::MAX] {
            let refused = resealed(40, &names.to_le_bytes());
            assert!(matches!(refused, SidecarError::Field { field: "length of the names", .. }), "{refused}");
        }
        assert!(matches!(resealed(40, &65_536_u32.to_le_bytes()), SidecarError::TooShort { expected: 65_600, .. }));
    }

    #[test]
    fn names_have_at_most_255_bytes_and_all_of_them_65536() {
        let name = "x".repeat(255);
        let names = vec![&name[..]; 256];
        let file = Sidecar::seal(b"", &TABLE, &names).unwrap();
        let sidecar = Sidecar::open(&file, file.len() as u64, &TABLE).unwrap();
        assert!(sidecar.key_parts().eq(names.iter().copied()));
        assert!(Sidecar::seal(b"", &TABLE, &[&names[..], &[""]].concat()).is_err());
        assert!(Sidecar::seal(b"", &TABLE, &[&"x".repeat(256)]).is_err());
    }

    #[test]
    fn names_that_are_no_text_or_longer_than_there_are_bytes_are_refused() {
        for names in [&[2, 0xff, 0xff][..], &[0, 2, b'a'], &[255, 0, 0]] {
            let mut file = Sidecar::seal(b"", &TABLE, &["ab"]).unwrap().to_vec();
            file[..3].copy_from_slice(names);
            file[3 + 48..3 + 52].copy_from_slice(&checksum(names).to_le_bytes());
            let sum = checksum(&file[3..3 + CHECKSUM_AT]);
            file[3 + CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
            let refused = Sidecar::open(&file, file.len() as u64, &TABLE).unwrap_err();
            assert!(matches!(refused, SidecarError::Field { field: "names", .. }), "{names:?}");
        }
    }

    #[test]
    fn a_message_says_which_table_was_expected_and_which_was_found() {
        let other = TableIdentity { bytes: 9, ..TABLE };
        let text = SidecarError::OtherTable { expected: other, got: TABLE }.to_string();
        let id = "07".repeat(16);
        assert!(text.contains(&format!("expected table {id} of 9 bytes and checksum 0x0000feed")), "{text}");
        assert!(text.contains(&format!("got table {id} of 4096 bytes")), "{text}");
    }
}
