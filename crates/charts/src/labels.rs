//! Places labels near what they name, without overlaps.

/// Returns the approximate width of `text` in pixels at a font size.
pub(crate) fn text_width(text: &str, size: i32) -> i32 {
    // An estimate, because fonts differ between viewers: a character is about 0.55 of the font size wide.
    i32::try_from(text.chars().count()).unwrap_or(i32::MAX / 64) * size * 11 / 20
}

/// Moves the middles of labels apart until neighbours are at least `gap` apart, each as near to its wanted position as
/// possible, and all within `low..=high` if they fit. The result has the order of `wanted`.
pub(crate) fn spread(wanted: &[i32], gap: i32, low: i32, high: i32) -> Vec<i32> {
    let mut order: Vec<_> = (0..wanted.len()).collect();
    order.sort_by_key(|&index| wanted[index]);
    // Groups of touching labels. A label that touches the group before it is merged with it, which may touch the next.
    let mut groups: Vec<Group> = Vec::new();
    for &index in &order {
        let mut group = Group { offsets: i64::from(wanted[index]), count: 1 };
        while let Some(above) = groups.pop_if(|above| above.end(gap) > group.first()) {
            // A joining label is `count` gaps below the group's first label.
            group.offsets = above.offsets + group.offsets - group.count * above.count * i64::from(gap);
            group.count += above.count;
        }
        groups.push(group);
    }
    let placed = groups.iter().flat_map(|group| (0..group.count).map(|place| group.first() + place * i64::from(gap)));
    let mut middles = vec![0; wanted.len()];
    for (&index, middle) in order.iter().zip(placed) {
        middles[index] = i32::try_from(middle).unwrap_or(0);
    }
    keep_within(&mut middles, &order, gap, low, high);
    middles
}

/// Labels in a row, `gap` apart. `offsets` is a sum over the labels: the position of the group's start that would put
/// the label at its wanted position. Their mean minimizes the squared distances.
struct Group {
    offsets: i64,
    count: i64,
}

impl Group {
    fn first(&self) -> i64 {
        self.offsets.div_euclid(self.count)
    }

    fn end(&self, gap: i32) -> i64 {
        self.first() + self.count * i64::from(gap)
    }
}

fn keep_within(middles: &mut [i32], order: &[usize], gap: i32, low: i32, high: i32) {
    let mut limit = high;
    for &index in order.iter().rev() {
        middles[index] = middles[index].min(limit);
        limit = middles[index] - gap;
    }
    let mut limit = low;
    for &index in order {
        middles[index] = middles[index].max(limit);
        limit = middles[index] + gap;
    }
}

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// Left, top.
    pub(crate) from: (i32, i32),
    /// Right, bottom.
    pub(crate) to: (i32, i32),
}

impl Area {
    /// The square around a point.
    pub(crate) fn around((x, y): (i32, i32), radius: i32) -> Self {
        Self { from: (x - radius, y - radius), to: (x + radius, y + radius) }
    }

    /// Whether the two areas overlap.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.from.0 < other.to.0 && other.from.0 < self.to.0 && self.from.1 < other.to.1 && other.from.1 < self.to.1
    }

    /// Whether `other` is inside this area.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.from.0 <= other.from.0 && self.from.1 <= other.from.1 && other.to.0 <= self.to.0 && other.to.1 <= self.to.1
    }
}

/// The direction in which a place for a label is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    /// Left of the point and above it.
    UpLeft,
    /// Right of the point and below it.
    DownRight,
}

/// Finds a place for a label of `size` that overlaps none of `taken` and is inside `within`: next to `point`, or at an
/// increasing distance `toward` a corner. If there is none, returns the place next to the point.
pub(crate) fn place_near(point: (i32, i32), size: (i32, i32), toward: Toward, taken: &[Area], within: Area) -> Area {
    let at = |(dx, dy): (i32, i32)| {
        let left = if dx >= 0 { point.0 + dx } else { point.0 + dx - size.0 };
        let top = point.1 + dy - size.1 / 2;
        Area { from: (left, top), to: (left + size.0, top + size.1) }
    };
    let sign = if toward == Toward::DownRight { 1 } else { -1 };
    let beside = [(10 * sign, 0), (-10 * sign, 0)];
    let farther = (1..24).flat_map(|ring| [10, 30, -10].map(|out| (out * sign, ring * 9 * sign)));
    let is_free = |area: &Area| within.contains(area) && !taken.iter().any(|other| other.overlaps(area));
    beside.into_iter().chain(farther).map(at).find(is_free).unwrap_or_else(|| at((10, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_apart_stay_and_labels_together_spread_around_their_middle() {
        assert_eq!(spread(&[10, 100], 20, 0, 200), [10, 100]);
        assert_eq!(spread(&[100, 100, 100], 20, 0, 200), [80, 100, 120]);
        assert_eq!(spread(&[105, 50, 95], 20, 0, 200), [110, 50, 90]);
    }

    #[test]
    fn labels_stay_within_their_limits_as_long_as_they_fit() {
        assert_eq!(spread(&[199, 200, 201], 20, 0, 200), [160, 180, 200]);
        assert_eq!(spread(&[0, 0], 20, 0, 200), [0, 20]);
        assert!(spread(&[], 20, 0, 200).is_empty());
    }

    #[test]
    fn a_label_evades_what_is_there() {
        let within = Area { from: (0, 0), to: (200, 200) };
        let free = place_near((50, 50), (60, 12), Toward::DownRight, &[], within);
        assert_eq!(free, Area { from: (60, 44), to: (120, 56) });
        let evading = place_near((50, 50), (60, 12), Toward::DownRight, &[free], within);
        assert!(!evading.overlaps(&free) && within.contains(&evading));
    }
}
