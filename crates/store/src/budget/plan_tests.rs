//! Plans against the best of all divisions.

use super::curve::{Curve, Curves};
use super::plan::{Demand, targets};
use super::unit::CurveNumber;

fn ribbon(columns: i32, whole: u64) -> Curve {
    let step = |count: i32| (whole * count as u64 / columns as u64, 0.5_f64.powi(count));
    Curve::new((1..columns).map(step), step(columns), false)
}

fn divisible_ribbon(columns: i32, whole: u64) -> Curve {
    let step = |count: i32| (whole * count as u64 / columns as u64, 0.5_f64.powi(count));
    Curve::new((1..columns).map(step), step(columns), true)
}

/// Six probes, ten bits per key, folded by 2, 3 and 4.
fn bloom(whole: u64) -> Curve {
    Curve::new([(whole / 4, 0.6), (whole / 3, 0.37), (whole / 2, 0.12)].into_iter(), (whole, 0.01), false)
}

fn demand(absent: f64, whole_bytes: u64, curve: CurveNumber) -> Demand {
    Demand { absent, whole_bytes, held_bytes: 0, curve }
}

/// Useless reads under a plan.
fn reads(demands: &[Demand], curves: &Curves, bytes: &[u64]) -> f64 {
    let pairs = demands.iter().zip(bytes);
    pairs.map(|(demand, &bytes)| demand.absent * curves.get(demand.curve).fpr(bytes, demand.whole_bytes)).sum()
}

/// The least useless reads of all divisions of `limit` bytes among curves' points.
fn min_reads(demands: &[Demand], curves: &Curves, limit: u64) -> f64 {
    let Some((first, others)) = demands.split_first() else { return 0.0 };
    let curve = curves.get(first.curve);
    let sizes = (0..curve.len()).filter_map(|index| curve.point(index, first.whole_bytes)).chain([(0, 1.0)]);
    let fitting = sizes.filter(|&(bytes, _)| bytes <= limit);
    fitting
        .map(|(bytes, fpr)| first.absent * fpr + min_reads(others, curves, limit - bytes))
        .fold(f64::INFINITY, f64::min)
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}

#[test]
fn plans_are_within_a_few_percent_of_the_best_division() {
    let mut curves = Curves::default();
    let numbers: Vec<CurveNumber> = [ribbon(7, 7_000), bloom(12_000), ribbon(10, 10_000), divisible_ribbon(7, 7_000)]
        .map(|c| curves.number(c))
        .to_vec();
    let mut random = Numbers(1);
    let (mut worst, mut total, mut best_total) = (1.0_f64, 0.0, 0.0);
    for _ in 0..400 {
        let count = 3 + random.below(3) as usize;
        let demands: Vec<Demand> = (0..count)
            .map(|_| {
                let absent = f64::from(1 << random.below(10)) * 100.0;
                demand(absent, 5_000 + random.below(5_000), numbers[random.below(4) as usize])
            })
            .collect();
        let whole: u64 = demands.iter().map(|demand| demand.whole_bytes).sum();
        let limit = whole * (5 + random.below(95)) / 100;
        let planned = targets(&demands, &curves, true, limit);
        assert!(planned.iter().sum::<u64>() <= limit);
        let (got, best) = (reads(&demands, &curves, &planned), min_reads(&demands, &curves, limit));
        worst = worst.max(got / best);
        total += got;
        best_total += best;
    }
    println!("useless reads: {:.4} of the least in all, {worst:.3} at worst", total / best_total);
    assert!(total < best_total * 1.03, "{total} reads, {best_total} with the best division");
}

#[test]
fn equal_files_get_equal_shares() {
    let mut curves = Curves::default();
    let number = curves.number(divisible_ribbon(7, 7_000));
    let demands = vec![demand(100.0, 7_000, number); 70];
    let planned = targets(&demands, &curves, true, 70 * 7_000 / 4);
    let (least, most) = (planned.iter().min().unwrap(), planned.iter().max().unwrap());
    assert!(*least >= 1_000 && *most <= 2_001 + 7, "{least} to {most}");
    let whole_only = targets(&demands, &curves, false, 70 * 7_000 / 4);
    let ratio = reads(&demands, &curves, &planned) / reads(&demands, &curves, &whole_only);
    assert!(ratio < 0.5, "{ratio} of the useless reads of whole filters");
}

#[test]
fn only_a_filter_of_any_size_gets_what_is_left_between_two_points() {
    let mut curves = Curves::default();
    let [fixed, any] = [ribbon(7, 7_000), divisible_ribbon(7, 7_000)].map(|curve| curves.number(curve));
    let planned = |curve| targets(&[demand(10_000.0, 7_000, curve)], &curves, true, 4_500)[0];
    let four_columns = curves.get(fixed).point(3, 7_000).unwrap().0;
    assert_eq!((planned(fixed), planned(any)), (four_columns, 4_500));
}

#[test]
fn nothing_is_planned_beyond_the_limit_or_the_filter() {
    let mut curves = Curves::default();
    let number = curves.number(divisible_ribbon(7, 7_000));
    for limit in [0, 1, 999, 1_001, 7_000, u64::MAX] {
        for whole in [1, 7_000, u64::MAX] {
            let demands = [demand(1e30, whole, number), demand(1.0, whole, 0), demand(1e9, whole, 77)];
            let planned = targets(&demands, &curves, true, limit);
            assert!(planned.iter().map(|&bytes| u128::from(bytes)).sum::<u128>() <= limit.into());
            assert!(planned.iter().all(|&bytes| bytes <= whole));
        }
    }
    assert_eq!(targets(&[], &curves, true, 100), [0; 0]);
}

#[test]
fn a_filter_in_memory_is_not_displaced_by_chance_but_by_use() {
    let mut curves = Curves::default();
    let number = curves.number(Curve::new(core::iter::empty(), (1_000, 0.01), false));
    let held = Demand { held_bytes: 1_000, ..demand(100.0, 1_000, number) };
    let plan = |other: f64| targets(&[held, demand(other, 1_000, number)], &curves, true, 1_500);
    assert_eq!([plan(130.0), plan(150.0)], [[1_000, 0], [0, 1_000]]);
}

#[test]
fn a_filter_is_not_read_again_for_less_than_the_read_costs() {
    let mut curves = Curves::default();
    let number = curves.number(ribbon(7, 7_000));
    let held = Demand { held_bytes: 5_000, ..demand(10.0, 7_000, number) };
    assert_eq!(targets(&[held], &curves, true, 10_000), [5_000]);
    let used = Demand { absent: 1_000.0, ..held };
    assert_eq!(targets(&[used], &curves, true, 10_000), [7_000]);
    assert_eq!(targets(&[demand(0.9, 7_000, number)], &curves, true, 10_000), [0], "one lookup is no reason");
}

#[test]
fn files_probed_once_leave_hot_ones_their_bytes() {
    let mut curves = Curves::default();
    let number = curves.number(ribbon(7, 7_000));
    let hot = (0..10).map(|_| Demand { held_bytes: 7_000, ..demand(5_000.0, 7_000, number) });
    let demands: Vec<Demand> = hot.chain((0..10_000).map(|_| demand(1.0, 7_000, number))).collect();
    let planned = targets(&demands, &curves, true, 75_000);
    assert!(planned[..10].iter().all(|&bytes| bytes == 7_000), "{:?}", &planned[..10]);
    assert_eq!(planned[10..].iter().sum::<u64>(), 0);
}
