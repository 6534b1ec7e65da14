//! Plain Rust, in a form that compilers turn into vectors.

use super::{LANES, Ranges, Within};

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled anew for each instruction set that calls it")]
pub(super) fn within(number: u64, ranges: &[Ranges]) -> Within {
    let mut within = Within::default();
    for (chunk, ranges) in ranges.iter().take(64 / LANES).enumerate() {
        let (mut inside, mut strictly_inside) = (0, 0);
        for lane in 0..LANES {
            let (smallest, largest) = (ranges.smallest[lane], ranges.largest[lane]);
            inside |= u64::from(smallest <= number && number <= largest) << lane;
            strictly_inside |= u64::from(smallest < number && number < largest) << lane;
        }
        within.inside |= inside << (chunk * LANES);
        within.strictly_inside |= strictly_inside << (chunk * LANES);
    }
    within
}
