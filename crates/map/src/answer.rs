//! The answers of maps: which of the covered files may have a key.

use core::cmp::Ordering;

use sstfilter::internal::code_line::{self, Query, Run, Select};

use crate::index::LocalId;
use crate::list::ListIds;
use crate::page::{ListPlace, OUTGROWN, Page, mark};
use crate::shape::Place;

/// Which files may have a key, of those that one map covers. Other files are not meant, whatever the answer is.
#[derive(Clone, Debug)]
#[must_use = "a file that is not among the candidates may be skipped only if the map covers it"]
pub enum MapAnswer<'a> {
    /// Only these may have the key.
    Only(LocalIds<'a>),
    /// All may have it: their entries are damaged or unknown.
    All,
}

impl<'a> MapAnswer<'a> {
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
    Here(MapAnswer<'a>),
    /// The files are in a list in the tail.
    List(ListPlace),
    /// The entries are in a longer page in the tail.
    Outgrown {
        offset: u64,
        bytes: u64,
    },
}

/// Returns which files may have the key with this place in the page. Never inlined, so that callers run exactly the
/// code that is tested on each platform.
#[inline(never)]
pub(crate) fn in_page(page: Page<'_>, place: Place) -> Found<'_> {
    code_line::answer(InPage(&page, &place))
}

/// By reference, because both were passed in memory, and would be copied.
struct InPage<'q, 'a>(&'q Page<'a>, &'q Place);

impl<'a> Query for InPage<'_, 'a> {
    type Answer = Found<'a>;

    #[inline(always)]
    fn run<S: Select>(self) -> Found<'a> {
        let Self(&page, &place) = self;
        // A place is always inside a page, so that only a page cut short has no line.
        let Some(line) = page.line(place.line) else { return Found::Here(MapAnswer::All) };
        if !line.has(place.quotient) {
            return Found::Here(MapAnswer::NONE);
        }
        match line.run::<S>(place.quotient, move |number| page.run_end(number)) {
            Some(Run { first, last }) => {
                in_fields(page, place.low * page.shape.radix(), line.rank() + first, line.rank() + last + 1)
            }
            None if mark(&line) == Some(OUTGROWN) => match page.elsewhere() {
                Some((offset, bytes)) => Found::Outgrown { offset, bytes },
                None => Found::Here(MapAnswer::All),
            },
            // The entries are unknown or were too many, or the line is forged.
            None => Found::Here(MapAnswer::All),
        }
    }
}

#[inline(always)]
fn in_fields(page: Page<'_>, low: u64, first: u64, end: u64) -> Found<'_> {
    // Most runs have one or two fields, and most lookups find none of theirs. The end of the run is known before its
    // fields are loaded. A branch on each field would be mispredicted, and found out only once the field is there.
    let radix = page.shape.radix();
    let is_field = |is_any: bool, number| is_any | (page.field(number).wrapping_sub(low) < radix);
    if !(first..end).fold(false, is_field) {
        return Found::Here(MapAnswer::NONE);
    }
    let Some(next) = (first..end).find(|&number| page.field(number) >= low) else {
        return Found::Here(MapAnswer::NONE);
    };
    match (page.field(next) - low).cmp(&u64::from(page.shape.files)) {
        Ordering::Less => {
            let ids = FieldIds { page, next, end, first: low, next_id: 0 };
            Found::Here(MapAnswer::Only(LocalIds(Ids::Fields(ids))))
        }
        Ordering::Equal => match page.list_place(next) {
            Some(place) => Found::List(place),
            None => Found::Here(MapAnswer::All),
        },
        Ordering::Greater => Found::Here(MapAnswer::NONE),
    }
}
