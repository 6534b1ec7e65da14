//! The matrix itself: what must happen in each cell.

use super::Outcome::{self, Contained, Refused, Unread, Unused};
use super::Wrong;
use Cell::{Is, Never, OneOf};

/// What must happen for one place, one thing that is wrong, and one reader.
#[derive(Clone, Copy)]
pub(super) enum Cell {
    /// Every case has this outcome, and a problem that contains this text.
    Is(Outcome, &'static str),
    /// Every case has one of these outcomes, and each of them occurs.
    OneOf(&'static [(Outcome, &'static str)]),
    /// There is no such case, for this reason.
    Never(&'static str),
}

impl Cell {
    pub(super) fn outcomes(&self) -> Vec<(Outcome, &'static str)> {
        match *self {
            Is(outcome, text) => vec![(outcome, text)],
            OneOf(outcomes) => outcomes.to_vec(),
            Never(_) => vec![],
        }
    }
}

/// A row for everything that can be wrong. Columns: block, reader of one file, set, view, table, batch.
pub(super) type Matrix = &'static [(Wrong, [Cell; 6]); 9];

pub(super) fn all() -> [(&'static str, Matrix); 7] {
    [
        ("block", BLOCK),
        ("partitions", PARTITIONS),
        ("sidecar", SIDECAR),
        ("layers", LAYERS),
        ("ranges", RANGES),
        ("map", MAP),
        ("table", TABLE),
    ]
}

const NO_BYTES: Cell = Never("bytes are passed to be loaded, so they are there");
const FIXED_REGION: Cell = Never("a part of a table has the length in its description; a cut table is another place");
const ONE_BLOCK: Cell = Never("a reader and a set take one block per file, and no container");
const IN_MEMORY: Cell = Never("an engine keeps it in memory; no file, view or table has one");
const NO_SIDECAR: Cell = Never("a table without a sidecar is no problem: its own filter answers");
const WHOLE_KEYS: Cell = Never("it has whole keys alone, whatever parts filters have");
const BY_DESCRIPTION: Cell = Never("its blocks are read by its description, as a view does");
const POINTS_ALONE: Cell = Never("readers and sets of single files are of point filters");
const KNOWS_NO_KEY: Cell = Never("a map alone has no known key to compare; a view takes them from its files");
const NO_FILE: Cell = Never("a page is read of an index, which was checked before");
const ENTRIES: Cell = Never("a table is no filter: only a table or a set of them reads it");
const BY_MANIFEST: Cell =
    Never("the manifest of an engine says which file is which table; the file itself says which it is");
const FILTERS_DIFFER: Cell =
    Never("a table reads its entries without the filter; the places of the filter have this row");

/// A row of points in one block: the same problem for all readers, but for the readers of a description.
const fn block(loaded: &'static str, described: &'static str) -> [Cell; 6] {
    let (unused, by_description) = (Is(Unused, loaded), Is(Unused, described));
    [Is(Refused, loaded), unused, unused, by_description, by_description, unused]
}

/// The same without the table, in which nothing can be missing.
const fn block_alone(row: [Cell; 6]) -> [Cell; 6] {
    let [block, reader, set, view, _, batch] = row;
    [block, reader, set, view, FIXED_REGION, batch]
}

pub(super) const BLOCK: Matrix = &[
    (Wrong::Flip, block("", "")),
    (Wrong::Cut, block_alone(block("", ""))),
    (Wrong::OtherHash, block("KnownKeyAbsent", "ReaderChanged")),
    (Wrong::OtherTag, block("HashMismatch", "HashMismatch")),
    (Wrong::OtherFile, block("FileMismatch", "FileMismatch")),
    (Wrong::Earlier, block("KnownKeyAbsent", "Checksum")),
    (Wrong::OtherParts, block("ExtractorMismatch", "ExtractorMismatch")),
    (
        Wrong::Missing,
        [NO_BYTES, Is(Unused, "Missing"), Is(Unused, "Missing"), Is(Unused, ""), FIXED_REGION, Is(Unused, "")],
    ),
    (Wrong::Swapped, block("", "")),
];

const fn partitions(container: Cell, others: Cell) -> [Cell; 6] {
    [container, ONE_BLOCK, ONE_BLOCK, others, others, others]
}

/// Damage to one partition is damage to its keys alone. That to the end of the container is damage to all.
const PARTITIONED: Cell = OneOf(&[(Unused, ""), (Contained, "Checksum"), (Unread, "")]);

pub(super) const PARTITIONS: Matrix = &[
    (Wrong::Flip, partitions(OneOf(&[(Refused, ""), (Contained, "Checksum"), (Unread, "")]), PARTITIONED)),
    (Wrong::Cut, block_alone(partitions(Is(Refused, ""), Is(Unused, "")))),
    (Wrong::OtherHash, partitions(Is(Refused, "KnownKeyAbsent"), Is(Unused, "ReaderChanged"))),
    (Wrong::OtherTag, partitions(Is(Refused, "HashMismatch"), Is(Unused, "HashMismatch"))),
    (Wrong::OtherFile, partitions(Is(Refused, "FileMismatch"), Is(Unused, "FileMismatch"))),
    // Its top index may have another length.
    (Wrong::Earlier, partitions(Is(Refused, "KnownKeyAbsent"), Is(Unused, ""))),
    (Wrong::OtherParts, partitions(Is(Refused, "ExtractorMismatch"), Is(Unused, "ExtractorMismatch"))),
    (Wrong::Missing, block_alone(partitions(NO_BYTES, Is(Unused, "")))),
    (Wrong::Swapped, partitions(Is(Contained, "Checksum"), Is(Contained, "Checksum"))),
];

const fn sidecar(view: Cell, table: Cell) -> [Cell; 6] {
    [BY_DESCRIPTION, ONE_BLOCK, ONE_BLOCK, view, table, table]
}

pub(super) const SIDECAR: Matrix = &[
    (Wrong::Flip, sidecar(OneOf(&[(Refused, ""), (Unused, ""), (Contained, "Checksum"), (Unread, "")]), PARTITIONED)),
    (Wrong::Cut, sidecar(Is(Refused, ""), Is(Unused, ""))),
    (Wrong::OtherHash, sidecar(Is(Unused, "ReaderChanged"), Is(Unused, "ReaderChanged"))),
    (Wrong::OtherTag, sidecar(Is(Unused, "HashMismatch"), Is(Unused, "HashMismatch"))),
    (Wrong::OtherFile, sidecar(Is(Refused, "OtherTable"), Is(Unused, "OtherTable"))),
    (Wrong::Earlier, sidecar(Is(Refused, "OtherTable"), Is(Unused, "OtherTable"))),
    (Wrong::OtherParts, sidecar(Is(Unused, "ExtractorMismatch"), Is(Unused, "ExtractorMismatch"))),
    (Wrong::Missing, sidecar(NO_SIDECAR, NO_SIDECAR)),
    (Wrong::Swapped, sidecar(PARTITIONED, PARTITIONED)),
];

const fn layers(cell: Cell) -> [Cell; 6] {
    [cell, IN_MEMORY, IN_MEMORY, IN_MEMORY, IN_MEMORY, cell]
}

pub(super) const LAYERS: Matrix = &[
    (Wrong::Flip, layers(Is(Refused, ""))),
    (Wrong::Cut, layers(Is(Refused, ""))),
    (Wrong::OtherHash, layers(Is(Refused, "KnownKeyAbsent"))),
    (Wrong::OtherTag, layers(Is(Refused, "HashMismatch"))),
    (Wrong::OtherFile, layers(OneOf(&[(Refused, "FileMismatch"), (Refused, "type of layers")]))),
    (Wrong::Earlier, layers(Is(Refused, "KnownKeyAbsent"))),
    (Wrong::OtherParts, layers(WHOLE_KEYS)),
    (Wrong::Missing, layers(NO_BYTES)),
    (Wrong::Swapped, layers(Is(Refused, ""))),
];

const fn ranges(loaded: &'static str, described: &'static str) -> [Cell; 6] {
    let (refused, unused) = (Is(Refused, loaded), Is(Unused, described));
    [refused, POINTS_ALONE, POINTS_ALONE, unused, unused, refused]
}

pub(super) const RANGES: Matrix = &[
    (Wrong::Flip, ranges("", "")),
    (Wrong::Cut, block_alone(ranges("", ""))),
    (Wrong::OtherHash, ranges("KnownKeyAbsent", "ReaderChanged")),
    (Wrong::OtherTag, ranges("HashMismatch", "HashMismatch")),
    (Wrong::OtherFile, ranges("FileMismatch", "FileMismatch")),
    (Wrong::Earlier, ranges("KnownKeyAbsent", "Checksum")),
    (Wrong::OtherParts, ranges("ExtractorMismatch", "ExtractorMismatch")),
    (Wrong::Missing, [NO_BYTES, POINTS_ALONE, POINTS_ALONE, Is(Unused, ""), FIXED_REGION, NO_BYTES]),
    (Wrong::Swapped, ranges("", "")),
];

/// A batch with a key of a damaged page goes without the map.
const fn map(single: Cell, batch: Cell) -> [Cell; 6] {
    [single, single, single, single, single, batch]
}

/// Only the keys in the descriptions of a view's files show it.
const fn known_by_view() -> [Cell; 6] {
    let refused = Is(Refused, "KnownKeyAbsent");
    [KNOWS_NO_KEY, NO_FILE, KNOWS_NO_KEY, refused, refused, refused]
}

const PAGED: Cell = OneOf(&[(Refused, ""), (Contained, "Damaged")]);

pub(super) const MAP: Matrix = &[
    (Wrong::Flip, map(PAGED, OneOf(&[(Refused, ""), (Unused, "Damaged")]))),
    (Wrong::Cut, [Is(Refused, ""); 6]),
    (Wrong::OtherHash, known_by_view()),
    (Wrong::OtherTag, [Is(Refused, "HashMismatch"); 6]),
    (Wrong::OtherFile, [Is(Refused, "FileMismatch"); 6]),
    (Wrong::Earlier, known_by_view()),
    (Wrong::OtherParts, [WHOLE_KEYS; 6]),
    (Wrong::Missing, [NO_BYTES; 6]),
    (Wrong::Swapped, map(Is(Contained, "Damaged"), Is(Unused, "Damaged"))),
];

const fn table(cell: Cell) -> [Cell; 6] {
    [ENTRIES, ENTRIES, cell, ENTRIES, cell, cell]
}

pub(super) const TABLE: Matrix = &[
    (Wrong::Flip, table(OneOf(&[(Refused, ""), (Unused, ""), (Unread, "")]))),
    (Wrong::Cut, table(Is(Refused, ""))),
    (Wrong::OtherHash, table(FILTERS_DIFFER)),
    (Wrong::OtherTag, table(FILTERS_DIFFER)),
    (Wrong::OtherFile, table(BY_MANIFEST)),
    (Wrong::Earlier, table(BY_MANIFEST)),
    (Wrong::OtherParts, table(FILTERS_DIFFER)),
    (Wrong::Missing, table(Is(Refused, "NotFound"))),
    (Wrong::Swapped, table(Is(Refused, "Checksum"))),
];
