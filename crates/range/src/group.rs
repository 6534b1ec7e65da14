//! Up to 64 exact filters, laid out to be probed for one key together.

use sstfilter::internal::bits_of;

use crate::block::RangeFilter;
use crate::exact::{Form, bit};

/// Bitmaps of files whose keys have one form. A key is parsed once for all of them, and is then one bit of each.
#[derive(Clone, Debug)]
pub struct ExactFilters<D> {
    /// Length of keys, and the bytes before the integer.
    key_bytes: usize,
    prefix: Box<[u8]>,
    /// In the order of their slots. No `RangeFilter`, which is several times as large.
    bitmaps: Vec<Bitmap<D>>,
    slots: u64,
}

#[derive(Clone, Debug)]
struct Bitmap<D> {
    data: D,
    first: u64,
    span: u64,
}

impl<D> Default for ExactFilters<D> {
    fn default() -> Self {
        Self { key_bytes: 0, prefix: Box::default(), bitmaps: Vec::new(), slots: 0 }
    }
}

impl<D: AsRef<[u8]> + Clone> ExactFilters<D> {
    /// Adds the filter at a slot. Returns `false`, and adds nothing, unless it is a bitmap of keys with the form of
    /// those before, and the slot is below 64 and above all in use.
    pub fn push(&mut self, slot: usize, filter: &RangeFilter<D>) -> bool {
        let is_next = slot < 64 && self.slots >> slot == 0;
        let Some((form, map)) = filter.bitmap().filter(|_| is_next) else { return false };
        if self.slots == 0 {
            (self.key_bytes, self.prefix) = (form.key_bytes, form.prefix.into());
        }
        let is_of_form = form == self.form();
        if is_of_form {
            self.slots |= 1 << slot;
            self.bitmaps.push(Bitmap { data: filter.data().clone(), first: map.first, span: map.span });
        }
        is_of_form
    }

    fn form(&self) -> Form<'_> {
        Form { key_bytes: self.key_bytes, prefix: &self.prefix }
    }

    /// The slots in use, as bits.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        self.slots
    }

    /// Returns the slots in `which` whose files may contain the key.
    #[must_use]
    pub fn probe(&self, key: &[u8], which: u64) -> u64 {
        if which & self.slots == 0 {
            return which;
        }
        let Some(integer) = self.form().integer(key) else { return which & !self.slots };
        let mut matches = !self.slots;
        // All, also those not in `which`: skipping costs as much as testing.
        for (slot, Bitmap { data, first, span }) in bits_of(self.slots).zip(&self.bitmaps) {
            let code = integer.wrapping_sub(*first);
            matches |= (u64::from(code <= *span) & bit(data.as_ref(), code)) << slot;
        }
        which & matches
    }
}
