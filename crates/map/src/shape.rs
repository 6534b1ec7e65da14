//! The numbers that decide where a hash is stored: pages, lines, quotients and low values.
//!
//! A map keeps the first `prefix_bits` bits of each hash, the *prefix*. Prefixes are divided evenly among all lines of
//! all pages. Within a line, eight bits of the remainder are the quotient, and the rest becomes the low value:
//!
//! ```text
//! code = floor(prefix * codes / 2^prefix-bits)        codes = pages * lines * 256 * lows
//!      = ((page * lines + line) * 256 + quotient) * lows + low
//! ```
//!
//! There are at least as many codes as prefixes, so different prefixes have different codes, and a code gives its
//! prefix back. Maps of equal prefix bits can therefore be merged without keys, whatever their other numbers are.
//!
//! The numbers need not be powers of two: a place is found by multiplications. A field combines the low value and the
//! file in the same way, `low * (files + 1) + id`, which saves almost a bit over two bit fields.

use core::ops::Range;

use crate::error::MapError;

/// Bytes of a line.
pub(crate) const LINE_BYTES: u64 = 64;

/// Bytes at the end of a page.
pub(crate) const PAGE_TRAILER_BYTES: u64 = 32;

/// Codes per line on average. A line has run ends for 224 codes, and more must go to the page's overflow: one line in
/// 5,000 at this mean, which takes 2.9 bits per code for lines. At a mean of 160 lines would take 3.2 bits.
const MEAN_LINE_CODES: u64 = 176;

/// A page holds the mean number of codes and this many standard deviations more. A Poisson variable exceeds five in 3
/// of 10^7 pages, and such a page goes to the tail.
const ROOM_DEVIATIONS: u64 = 5;

/// Bounds of the binary logarithm of a page's bytes.
pub(crate) const PAGE_BITS: Range<u8> = 10..21;

/// Bounds of the bits of a prefix. Less would be no filter; with more, a prefix and a file might not fit into 64 bits
/// while a map is built. 48 bits are enough for 10^12 entries at 0.4 %.
pub(crate) const PREFIX_BITS: Range<u8> = 8..49;

/// Maximum bits of a field. A field is read from eight bytes, and begins at any bit of the first.
pub(crate) const MAX_FIELD_BITS: u8 = 56;

/// Maximum number of files; ids and the list mark fit into 31 bits.
pub(crate) const MAX_FILES: u32 = (1 << 31) - 2;

/// Codes are below 2^56.
const MAX_CODE_BITS: u32 = 56;

/// Maximum number of lines of a page: a page has 2^20 bytes.
const MAX_LINES: u64 = 1 << 14;

/// Maximum number of pages, for which a page's trailer has five bytes.
const MAX_PAGES: u64 = (1 << 40) - 1;

/// The numbers of one map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) prefix_bits: u8,
    pub(crate) field_bits: u8,
    pub(crate) page_bits: u8,
    pub(crate) files: u32,
    pub(crate) lines: u64,
    pub(crate) pages: u64,
    /// Number of low values: as many as the field has room for.
    lows: u64,
}

/// Where the entries of a hash are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) page: u64,
    pub(crate) line: u64,
    pub(crate) quotient: u8,
    pub(crate) low: u64,
}

/// The upper and the lower half of a product.
#[expect(clippy::cast_possible_truncation, reason = "the halves of 128 bits")]
#[inline(always)]
const fn multiply(one: u64, other: u64) -> (u64, u64) {
    let product = one as u128 * other as u128;
    ((product >> 64) as u64, product as u64)
}

impl Shape {
    /// Returns the shape with these numbers, if a map can have them.
    pub(crate) fn new(
        (prefix_bits, field_bits, page_bits): (u8, u8, u8),
        files: u32,
        lines: u64,
        pages: u64,
    ) -> Result<Self, MapError> {
        let check = MapError::require;
        check(PREFIX_BITS.contains(&prefix_bits), "prefix bits", "8 to 48", prefix_bits.into())?;
        check(PAGE_BITS.contains(&page_bits), "page bits", "10 to 20", page_bits.into())?;
        check(field_bits <= MAX_FIELD_BITS, "field bits", "at most 56", field_bits.into())?;
        check((1..=MAX_FILES).contains(&files), "files", "1 to 2^31 - 2", files.into())?;
        let has_room = (1..=MAX_LINES).contains(&lines) && lines * LINE_BYTES + PAGE_TRAILER_BYTES <= 1 << page_bits;
        check(has_room, "lines of a page", "at least 1, and as many as a page has room for", lines)?;
        check((1..=MAX_PAGES).contains(&pages), "pages", "1 to 2^40 - 1", pages)?;
        let lows = (1 << field_bits) / (u64::from(files) + 1);
        check(lows > 0, "field bits", "enough for all files", field_bits.into())?;
        let shape = Self { prefix_bits, field_bits, page_bits, files, lines, pages, lows };
        let (codes, prefixes) = (shape.codes(), 1 << prefix_bits);
        check(codes >= prefixes, "prefix bits", "at most as many prefixes as codes", prefix_bits.into())?;
        // The arithmetic of prefixes needs it. Planned maps have at most four times as many codes as prefixes.
        check(codes >> MAX_CODE_BITS == 0, "codes", "below 2^56", codes.min(u64::MAX.into()) as u64)?;
        Ok(shape)
    }

    /// Returns the shape of a map of `entries` entries that takes the fewest bytes. It depends on nothing else, so that
    /// a merge makes the bytes that a build from keys would make.
    ///
    /// `spread` is the variance of the number of entries of a page, as a multiple of its mean: the number of files that
    /// have a key in common.
    pub(crate) fn plan(
        prefix_bits: u8,
        max_page_bits: u8,
        files: u32,
        entries: u64,
        spread: u64,
    ) -> Result<Self, MapError> {
        let least_bits = 64 - u64::from(files).leading_zeros();
        let mut best: Option<(u64, Self)> = None;
        for field_bits in least_bits as u8..=MAX_FIELD_BITS {
            let lows = (1 << field_bits) / (u64::from(files) + 1);
            // Fewer low values need more lines, for the same number of codes.
            let lines_for_codes = (1_u64 << prefix_bits).div_ceil(lows.saturating_mul(256));
            let all_lines = lines_for_codes.max(entries.div_ceil(MEAN_LINE_CODES)).max(1);
            let Some((page_bits, lines, pages)) = pages_of(all_lines, entries, field_bits, max_page_bits, spread)
            else {
                continue;
            };
            let bytes = pages.saturating_mul(1 << page_bits);
            if best.is_none_or(|(least, _)| bytes < least) {
                let shape = Self::new((prefix_bits, field_bits, page_bits), files, lines, pages)?;
                best = Some((bytes, shape));
            }
            if lines_for_codes <= entries.div_ceil(MEAN_LINE_CODES).max(1) {
                // Wider fields would only add bytes.
                break;
            }
        }
        let too_large = || MapError::field("entries", "fewer for pages of this size", entries);
        best.map(|(_, shape)| shape).ok_or_else(too_large)
    }

    pub(crate) fn codes(&self) -> u128 {
        u128::from(self.pages) * u128::from(self.lines) * 256 * u128::from(self.lows)
    }

    /// Bytes of a page, but for those that have outgrown it.
    pub(crate) const fn page_bytes(&self) -> usize {
        1 << self.page_bits
    }

    /// The divisor of fields: a file's id is the remainder, and `files` marks a list.
    pub(crate) const fn radix(&self) -> u64 {
        self.files as u64 + 1
    }

    pub(crate) const fn prefix_of(&self, hash: u64) -> u64 {
        hash >> (64 - self.prefix_bits)
    }

    /// Returns where the entries of a hash are. Only its prefix decides.
    #[inline(always)]
    pub(crate) const fn place(&self, hash: u64) -> Place {
        self.place_of_prefix(self.prefix_of(hash))
    }

    #[inline(always)]
    pub(crate) const fn place_of_prefix(&self, prefix: u64) -> Place {
        let (page, rest) = multiply(prefix << (64 - self.prefix_bits), self.pages);
        let (line, rest) = multiply(rest, self.lines);
        let (low, _) = multiply(rest << 8, self.lows);
        Place { page, line, quotient: (rest >> 56) as u8, low }
    }

    /// Returns the smallest prefix of a page, or of the page after the last one.
    pub(crate) fn first_prefix(&self, page: u64) -> u64 {
        (u128::from(page) << self.prefix_bits).div_ceil(u128::from(self.pages)) as u64
    }

    /// Returns the prefixes of a line, which may be none.
    pub(crate) fn prefixes_of_line(&self, page: u64, line: u64) -> Range<u64> {
        let (number, lines) = (page * self.lines + line, u128::from(self.pages * self.lines));
        let [first, end] =
            [number, number + 1].map(|line| (u128::from(line) << self.prefix_bits).div_ceil(lines) as u64);
        first..end
    }

    /// Returns what turns places into prefixes.
    pub(crate) fn prefixes(&self) -> Prefixes {
        let codes = self.codes();
        Prefixes {
            lows: self.lows,
            page_codes: self.lines * 256 * self.lows,
            // Rounded down, and always below the quotient. There are at least as many codes as prefixes, so it has 64
            // bits.
            reciprocal: ((((1_u128 << 64) << self.prefix_bits) - 1) / codes) as u64,
            codes: codes as u64,
            prefix_bits: self.prefix_bits,
        }
    }
}

/// Returns page bits, lines of a page, and pages, for `all_lines` lines or a few more. `None` if not even one line has
/// room in a page.
fn pages_of(all_lines: u64, entries: u64, field_bits: u8, max_page_bits: u8, spread: u64) -> Option<(u8, u64, u64)> {
    // Of all entries in as many lines.
    let bytes_of = |lines: u64| {
        let mean = (u128::from(entries) * u128::from(lines)).div_ceil(u128::from(all_lines)) as u64;
        let room = mean.saturating_add(ROOM_DEVIATIONS * mean.saturating_mul(spread).isqrt()).min(entries);
        let field_bytes = u128::from(room).saturating_mul(u128::from(field_bits)).div_ceil(8);
        u128::from(lines * LINE_BYTES + PAGE_TRAILER_BYTES) + field_bytes
    };
    let has_room = |lines: u64, page_bits: u8| bytes_of(lines) <= 1 << page_bits;
    // A small map has one small page.
    if all_lines <= MAX_LINES
        && let Some(page_bits) = (PAGE_BITS.start..=max_page_bits).find(|&page_bits| has_room(all_lines, page_bits))
    {
        return Some((page_bits, all_lines, 1));
    }
    let (mut most, mut too_many) = (0, MAX_LINES.min(all_lines) + 1);
    while most + 1 < too_many {
        let middle = most.midpoint(too_many);
        if has_room(middle, max_page_bits) { most = middle } else { too_many = middle }
    }
    let pages = all_lines.checked_div(most)?.saturating_add(u64::from(!all_lines.is_multiple_of(most)));
    // Spread evenly, which leaves a little more room to each page.
    (pages <= MAX_PAGES).then(|| (max_page_bits, all_lines.div_ceil(pages), pages))
}

/// Computes prefixes from places, without a division for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefixes {
    lows: u64,
    page_codes: u64,
    reciprocal: u64,
    codes: u64,
    prefix_bits: u8,
}

impl Prefixes {
    /// Returns the prefix of a place; `None` if no prefix has it, which only damaged bytes cause.
    #[inline(always)]
    pub(crate) fn of(&self, place: Place) -> Option<u64> {
        let Place { page, line, quotient, low } = place;
        let code = page * self.page_codes + (line << 8 | u64::from(quotient)) * self.lows + low;
        // ceil(code * 2^prefix-bits / codes), or in rare cases one below.
        let (mut prefix, rest) = multiply(code, self.reciprocal);
        prefix += u64::from(rest > 0);
        let code_of = |prefix: u64| multiply(prefix << (64 - self.prefix_bits), self.codes).0;
        if code_of(prefix) < code {
            prefix += 1;
        }
        (code_of(prefix) == code).then_some(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Value, vectors};

    fn shape_of(row: &Value) -> Shape {
        let [prefix_bits, field_bits, page_bits, files, lines, pages] =
            ["prefix_bits", "field_bits", "page_bits", "files", "lines", "pages"].map(|name| row.number(name));
        Shape::new((prefix_bits as u8, field_bits as u8, page_bits as u8), files as u32, lines, pages).unwrap()
    }

    fn code_of(shape: &Shape, Place { page, line, quotient, low }: Place) -> u64 {
        ((page * shape.lines + line) * 256 + u64::from(quotient)) * shape.lows + low
    }

    #[test]
    fn places_are_those_of_the_vectors() {
        for row in vectors("maps").rows("places") {
            let (shape, hash) = (shape_of(row), row.hex("hash"));
            let place = shape.place(hash);
            let [page, line, quotient, low] = ["page", "line", "quotient", "low"].map(|name| row.number(name));
            assert_eq!(place, Place { page, line, quotient: quotient as u8, low }, "{row}");
            assert_eq!(code_of(&shape, place), row.number("code"), "{row}");
            assert_eq!(shape.prefixes().of(place), Some(shape.prefix_of(hash)), "{row}");
        }
    }

    #[test]
    fn a_place_gives_its_prefix_back_also_where_the_reciprocal_is_one_too_low() {
        // 256 more codes than prefixes, so that codes lie just above prefixes.
        let shape = Shape::new((48, 1, 15), 1, 257, 4_278_255_361).unwrap();
        let prefixes = shape.prefixes();
        for above in (0..=1_u64 << 8).map(|number| number << 40) {
            for prefix in above.saturating_sub(70_000)..above {
                assert_eq!(prefixes.of(shape.place_of_prefix(prefix)), Some(prefix));
            }
        }
        let unused = Place { page: 0, line: 0, quotient: 0, low: 1 << 40 };
        assert_eq!(prefixes.of(unused), None);
    }

    #[test]
    fn plans_are_those_of_the_vectors() {
        for row in vectors("maps").rows("plans") {
            let [prefix_bits, max_page_bits, files, entries, spread] =
                ["prefix_bits", "max_page_bits", "files", "entries", "spread"].map(|name| row.number(name));
            let plan = Shape::plan(prefix_bits as u8, max_page_bits as u8, files as u32, entries, spread).unwrap();
            let found = [plan.field_bits.into(), plan.page_bits.into(), plan.lines, plan.pages];
            assert_eq!(found, ["field_bits", "page_bits", "lines", "pages"].map(|name| row.number(name)), "{row}");
        }
    }

    /// The plan of the format's description, by linear search.
    fn plan_by_hand(bits: (u8, u8), files: u64, entries: u64, spread: u64) -> Option<(u8, u8, u64, u64)> {
        let (mut best, mean_lines) = (None::<(u64, _)>, entries.div_ceil(176).max(1));
        for w in (64 - files.leading_zeros()) as u8..=56 {
            let lines_for_codes = (1_u64 << bits.0).div_ceil(256 * ((1 << w) / (files + 1)));
            let all = lines_for_codes.max(mean_lines);
            let bytes = |lines: u64| {
                let mean = (u128::from(entries) * u128::from(lines)).div_ceil(u128::from(all)) as u64;
                let room = entries.min(mean + 5 * (mean * spread).isqrt());
                64 * lines + 32 + (room * u64::from(w)).div_ceil(8)
            };
            let whole = (10..=bits.1).find(|&b| all <= 1 << 14 && bytes(all) <= 1 << b).map(|b| (b, 1, all));
            let most = || (1..=all.min(1 << 14)).take_while(|&lines| bytes(lines) <= 1 << bits.1).last();
            let cut = |most: u64| (bits.1, all.div_ceil(most), all.div_ceil(all.div_ceil(most)));
            if let Some((b, pages, lines)) = whole.or_else(|| most().map(cut))
                && best.is_none_or(|(least, _)| pages << b < least)
            {
                best = Some((pages << b, (w, b, lines, pages)));
            }
            if lines_for_codes <= mean_lines {
                break;
            }
        }
        best.map(|(_, plan)| plan)
    }

    #[test]
    fn plans_are_those_of_the_description() {
        for (prefix_bits, max_page_bits) in [(8, 10), (20, 10), (26, 11), (33, 16), (41, 10), (48, 10), (48, 12)] {
            for (files, spread) in [(1, 1), (2, 1), (3, 40), (31, 1), (32, 1), (1_000, 3), (70_000, 1)] {
                for entries in (0..30).chain((1..60).map(|step| step * 37)).chain((10..19).map(|log| 1 << log)) {
                    let plan = Shape::plan(prefix_bits, max_page_bits, files, entries, spread).ok();
                    let found = plan.map(|plan| (plan.field_bits, plan.page_bits, plan.lines, plan.pages));
                    let expected = plan_by_hand((prefix_bits, max_page_bits), files.into(), entries, spread);
                    assert_eq!(found, expected, "{prefix_bits} {max_page_bits} {files} {spread} {entries}");
                }
            }
        }
    }

    /// Prefixes of a shape: the first and the last ones, those at the borders of pages, and random ones.
    fn some_prefixes(shape: &Shape) -> Vec<u64> {
        let prefixes = 1_u64 << shape.prefix_bits;
        let borders = (0..shape.pages.min(40)).map(|page| shape.first_prefix(page));
        let random = (0..400).map(|number| sstfilter::KeyHash::mix(number).get() >> (64 - shape.prefix_bits));
        let all = (0..20).chain(prefixes - 20..prefixes).chain(borders).chain(random);
        all.flat_map(|prefix| [prefix.saturating_sub(1), prefix]).filter(|&prefix| prefix < prefixes).collect()
    }

    #[test]
    fn a_place_gives_its_prefix_back_and_codes_ascend_with_prefixes() {
        let mut shapes = Vec::new();
        for prefix_bits in PREFIX_BITS {
            for (files, entries, page_bits) in [(1, 0, 10), (1, 1 << 20, 10), (70, 1_050_000, 16), (1_000, 1 << 34, 20)]
            {
                shapes.extend(Shape::plan(prefix_bits, page_bits, files, entries, 1));
            }
            // As many codes as prefixes: the reciprocal would need 65 bits.
            shapes.extend(Shape::new((prefix_bits, prefix_bits - 8 + 1, 10), 1, 1, 1));
        }
        assert_eq!(shapes.len(), 5 * PREFIX_BITS.len());
        for shape in shapes {
            let (prefixes, mut own) = (shape.prefixes(), some_prefixes(&shape));
            own.sort_unstable();
            own.dedup();
            for two in own.windows(2) {
                let places = [two[0], two[1]].map(|prefix| shape.place_of_prefix(prefix));
                assert!(code_of(&shape, places[0]) < code_of(&shape, places[1]), "{shape:?}");
            }
            for prefix in own {
                let place = shape.place_of_prefix(prefix);
                assert!(place.page < shape.pages && place.line < shape.lines && place.low < shape.lows, "{shape:?}");
                assert_eq!(prefixes.of(place), Some(prefix), "{shape:?}");
                assert!((shape.first_prefix(place.page)..shape.first_prefix(place.page + 1)).contains(&prefix));
                // The next code is that of the next prefix, or of none.
                let next = Place { low: place.low + 1, ..place };
                let expected = shape.place_of_prefix(prefix + 1);
                if next.low < shape.lows && prefix + 1 < 1 << shape.prefix_bits {
                    assert_eq!(prefixes.of(next), (next == expected).then_some(prefix + 1), "{shape:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_that_no_map_has_are_refused() {
        let refused = |bits, files, lines, pages| match Shape::new(bits, files, lines, pages) {
            Err(MapError::Field { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        let is_shape = |bits, files, lines, pages| Shape::new(bits, files, lines, pages).is_ok();
        assert!(is_shape((8, 1, 10), 1, 1, 1) && is_shape((48, 28, 20), 1, 16_383, 1));
        assert_eq!([refused((7, 9, 10), 1, 1, 1), refused((49, 56, 10), 1, 1, 1)], ["prefix bits"; 2]);
        assert_eq!([refused((8, 9, 9), 1, 1, 1), refused((8, 9, 21), 1, 1, 1)], ["page bits"; 2]);
        assert_eq!(refused((8, 57, 10), 1, 1, 1), "field bits");
        assert_eq!([refused((8, 31, 10), 0, 1, 1), refused((8, 32, 10), MAX_FILES + 1, 1, 1)], ["files"; 2]);
        assert!(is_shape((8, 31, 10), MAX_FILES, 1, 1));
        assert_eq!([refused((8, 9, 10), 1, 0, 1), refused((8, 9, 10), 1, 16, 1)], ["lines of a page"; 2]);
        assert!(is_shape((8, 9, 10), 1, 15, 1));
        assert_eq!([refused((8, 9, 10), 1, 1, 0), refused((8, 9, 10), 1, 1, MAX_PAGES + 1)], ["pages"; 2]);
        assert!(is_shape((8, 9, 10), 1, 1, MAX_PAGES));
        assert_eq!(refused((8, 2, 10), 4, 1, 1), "field bits");
        assert_eq!(refused((9, 1, 10), 1, 1, 1), "prefix bits");
        assert_eq!(refused((48, 48, 10), 1, 1, 2), "codes");
        assert!(is_shape((48, 48, 10), 1, 1, 1));
    }
}
