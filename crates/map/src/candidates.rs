//! The answers of maps: which of the covered files may have a key.

use core::cmp::Ordering;

use sstfilter_range::internal::Select;

use crate::index::LocalId;
use crate::list::ListIds;
use crate::page::{Entries, ListPlace, Page};
use crate::shape::Place;

/// Which files may have a key, of those that one map covers. Other files are not meant, whatever the answer is.
#[derive(Clone, Debug)]
#[must_use = "a file that is not among the candidates may be skipped only if the map covers it"]
pub enum Candidates<'a> {
    /// Only these may have the key.
    Only(LocalIds<'a>),
    /// All may have it: their entries are damaged or unknown.
    All,
}

impl<'a> Candidates<'a> {
    /// Returns whether the file may have the key.
    #[must_use]
    pub fn may_contain(self, file: LocalId) -> bool {
        match self {
            Self::Only(mut ids) => ids.any(|id| id == file),
            Self::All => true,
        }
    }

    pub(crate) const fn of_list(ids: &'a [u8], files: u32) -> Self {
        Self::Only(LocalIds(Ids::List { ids: ListIds::new(ids), files }))
    }

    pub(crate) const NONE: Self = Self::Only(LocalIds(Ids::None));

    pub(crate) const fn is_none(&self) -> bool {
        matches!(self, Self::Only(LocalIds(Ids::None)))
    }
}

/// The local ids of candidates, ascending.
#[derive(Clone, Debug)]
pub struct LocalIds<'a>(Ids<'a>);

#[derive(Clone, Debug)]
enum Ids<'a> {
    None,
    Fields(FieldIds<'a>),
    List { ids: ListIds<'a>, files: u32 },
}

/// The ids in the fields of one low value.
#[derive(Clone, Debug)]
struct FieldIds<'a> {
    page: Page<'a>,
    next: u64,
    end: u64,
    /// The field of the low value and file 0.
    first: u64,
    /// The least id that may follow.
    next_id: u64,
}

impl Iterator for LocalIds<'_> {
    type Item = LocalId;

    #[inline]
    fn next(&mut self) -> Option<LocalId> {
        match &mut self.0 {
            Ids::None => None,
            Ids::Fields(fields) => fields.next(),
            // A forged list may have other ids.
            Ids::List { ids, files } => ids.next().filter(|id| id < files).map(LocalId),
        }
    }
}

impl FieldIds<'_> {
    #[inline(always)]
    fn next(&mut self) -> Option<LocalId> {
        if self.next >= self.end {
            return None;
        }
        let id = self.page.field(self.next).wrapping_sub(self.first);
        self.next += 1;
        // Fields ascend, so that a field of a greater low value ends them. Forged ones need not.
        if id >= u64::from(self.page.shape.files) || id < self.next_id {
            return None;
        }
        self.next_id = id + 1;
        Some(LocalId(id as u32))
    }
}

/// What a page says about a hash.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    Here(Candidates<'a>),
    Elsewhere(Elsewhere),
}

/// Where the entries of a hash are, if not in their page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Elsewhere {
    /// In a list in the tail.
    List(ListPlace),
    /// In a longer page in the tail.
    Outgrown { offset: u64, bytes: u64 },
}

/// Returns which files may have the key with this place in the page.
#[inline(always)]
pub(crate) fn in_page<S: Select>(page: Page<'_>, place: Place) -> Found<'_> {
    match page.find::<S>(place) {
        Entries::None => Found::Here(Candidates::NONE),
        Entries::Fields { first, end } => in_fields(page, place.low * page.shape.radix(), first, end),
        Entries::Outgrown => match page.elsewhere() {
            Some((offset, bytes)) => Found::Elsewhere(Elsewhere::Outgrown { offset, bytes }),
            None => Found::Here(Candidates::All),
        },
        Entries::Unknown => Found::Here(Candidates::All),
    }
}

#[inline(always)]
fn in_fields(page: Page<'_>, low: u64, mut next: u64, end: u64) -> Found<'_> {
    // Most runs have one or two fields, and most lookups find none of theirs. The end of the run is known before its
    // fields are loaded. A branch on each field would be mispredicted, and found out only once the field is there.
    let radix = page.shape.radix();
    let is_field = |is_any: bool, number| is_any | (page.field(number).wrapping_sub(low) < radix);
    if !(next..end).fold(false, is_field) {
        return Found::Here(Candidates::NONE);
    }
    while next < end {
        let field = page.field(next);
        if let Some(id) = field.checked_sub(low) {
            return match id.cmp(&u64::from(page.shape.files)) {
                Ordering::Less => {
                    let ids = FieldIds { page, next, end, first: low, next_id: 0 };
                    Found::Here(Candidates::Only(LocalIds(Ids::Fields(ids))))
                }
                Ordering::Equal => match page.list_place(next) {
                    Some(place) => Found::Elsewhere(Elsewhere::List(place)),
                    None => Found::Here(Candidates::All),
                },
                Ordering::Greater => Found::Here(Candidates::NONE),
            };
        }
        next += 1;
    }
    Found::Here(Candidates::NONE)
}
