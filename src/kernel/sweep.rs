//! The pending rows of a sweep over one bucket, and one step of their elimination.

/// Rows that wait for a pivot, in ascending order of their starts: the last has the highest priority.
///
/// A row is kept in circular form (bit `i` stands for the slot congruent to `i` modulo 64), so that
/// elimination needs no shift.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    rows: Vec<u64>,
    /// Result bits, as wide as the rows so that one mask serves both.
    results: Vec<u64>,
    /// Start of each row, counted from the left of the bucket.
    offsets: Vec<u8>,
}

/// A row that is to be eliminated from others, or one that has joined or left the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) coefficients: u64,
    pub(crate) result: u32,
    pub(crate) offset: u8,
}

impl Lanes {
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.results.clear();
        self.offsets.clear();
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row.coefficients);
        self.results.push(row.result.into());
        self.offsets.push(row.offset);
    }

    /// Takes out the row of the highest priority that has bit `bit`.
    #[expect(clippy::cast_possible_truncation, reason = "results were widened from 32 bits")]
    pub(crate) fn take_highest(&mut self, bit: u32) -> Option<Row> {
        let lane = self.rows.iter().rposition(|row| row >> bit & 1 == 1)?;
        Some(Row {
            coefficients: self.rows.remove(lane),
            result: self.results.remove(lane) as u32,
            offset: self.offsets.remove(lane),
        })
    }

    /// Adds `pivot` to every row that has bit `bit`, and returns whether any row has bits left.
    #[inline]
    pub(crate) fn eliminate(&mut self, bit: u32, coefficients: u64, result: u32) -> bool {
        let result = u64::from(result);
        let mut left = 0;
        for (row, out) in self.rows.iter_mut().zip(&mut self.results) {
            let selected = (*row >> bit & 1).wrapping_neg();
            *row ^= coefficients & selected;
            *out ^= result & selected;
            left |= *row;
        }
        left != 0
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.capacity() * 8 + self.results.capacity() * 8 + self.offsets.capacity()
    }

    /// Whether any row has bits left.
    pub(crate) fn any_left(&self) -> bool {
        self.rows.iter().any(|&row| row != 0)
    }

    /// The largest offset of a row whose coefficients are used up while its result is not zero: no
    /// solution can serve it together with those before it.
    pub(crate) fn last_contradiction(&self) -> Option<u8> {
        let spent = self.rows.iter().zip(&self.results).map(|(&row, &result)| row == 0 && result != 0);
        spent.zip(&self.offsets).filter(|&(contradicts, _)| contradicts).map(|(_, &offset)| offset).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(coefficients: u64, result: u32, offset: u8) -> Row {
        Row { coefficients, result, offset }
    }

    #[test]
    fn the_last_row_with_the_bit_is_taken_and_the_others_keep_their_order() {
        let mut lanes = Lanes::default();
        [row(0b01, 1, 0), row(0b11, 2, 1), row(0b10, 3, 2)].into_iter().for_each(|row| lanes.push(row));
        assert_eq!(lanes.take_highest(0), Some(row(0b11, 2, 1)));
        assert_eq!(lanes.take_highest(0), Some(row(0b01, 1, 0)));
        assert_eq!(lanes.take_highest(0), None);
        assert_eq!(lanes.take_highest(1), Some(row(0b10, 3, 2)));
    }

    #[test]
    fn elimination_touches_rows_with_the_bit_only_and_reports_contradictions() {
        let mut lanes = Lanes::default();
        [row(0b01, 1, 0), row(0b11, 2, 5), row(0b10, 3, 9)].into_iter().for_each(|row| lanes.push(row));
        assert!(lanes.eliminate(0, 0b11, 6));
        assert_eq!(lanes.last_contradiction(), Some(5));
        assert_eq!(lanes.rows, [0b10, 0, 0b10]);
        assert_eq!(lanes.results, [7, 4, 3]);
        assert!(lanes.any_left());
    }
}
