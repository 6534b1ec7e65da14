//! Labels that stand beside what they name, and not on each other.

/// Moves the middles of labels apart until neighbours are `gap` apart, each as near to where it was as that
/// allows, all within `low..=high` if they fit. The order of the result is that of `wanted`.
pub(super) fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = wanted.iter().copied().enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut middles = place(&order, gap);
    keep_within(&mut middles, gap, low, high);
    let mut placed: Vec<_> = order.iter().map(|label| label.0).zip(middles).collect();
    placed.sort_by_key(|label| label.0);
    placed.into_iter().map(|label| label.1).collect()
}

/// Labels in a row, `gap` apart.
struct Group {
    /// Where their first stands.
    first: f64,
    /// How many they are.
    count: f64,
}

/// Merges labels that touch into groups, each around the mean of where its labels want to be.
fn place(order: &[(usize, f64)], gap: f64) -> Vec<f64> {
    let mut groups: Vec<Group> = Vec::new();
    for &(_, wanted) in order {
        let mut group = Group { first: wanted, count: 1.0 };
        while let Some(above) = groups.pop_if(|above| above.first + above.count * gap > group.first) {
            let count = above.count + group.count;
            let first = (above.first * above.count + (group.first - above.count * gap) * group.count) / count;
            group = Group { first, count };
        }
        groups.push(group);
    }
    let mut middles = Vec::with_capacity(order.len());
    for group in groups {
        let mut middle = group.first;
        while middle < group.first + (group.count - 0.5) * gap {
            middles.push(middle);
            middle += gap;
        }
    }
    middles
}

fn keep_within(middles: &mut [f64], gap: f64, low: f64, high: f64) {
    let mut limit = high;
    for middle in middles.iter_mut().rev() {
        *middle = middle.min(limit);
        limit = *middle - gap;
    }
    let mut limit = low;
    for middle in middles {
        *middle = middle.max(limit);
        limit = *middle + gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_have_room_stay_where_they_are() {
        assert_eq!(spread(&[30.0, 10.0, 50.0], 10.0, 0.0, 100.0), [30.0, 10.0, 50.0]);
    }

    #[test]
    fn crowded_labels_part_around_their_middle_and_stay_within() {
        assert_eq!(spread(&[50.0, 50.0, 50.0], 10.0, 0.0, 100.0), [40.0, 50.0, 60.0]);
        assert_eq!(spread(&[99.0, 100.0], 10.0, 0.0, 100.0), [90.0, 100.0]);
        assert_eq!(spread(&[0.0, 0.0], 10.0, 0.0, 100.0), [0.0, 10.0]);
    }
}
