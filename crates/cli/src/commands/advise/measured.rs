//! Measured times of building and probing, written by `sstfilter-peers advice` from `benches/results`.

/// Name of a kind or variant, with its nanoseconds per key to build and per absent key to probe in batches, at 10,000,
/// 100,000, 1,000,000 and 10,000,000 keys.
pub(super) const MEASURED: &[(&str, [(f64, f64); 4])] = &[
    ("bloom", [(1.5, 1.0), (1.4, 1.1), (2.3, 1.6), (5.8, 3.0)]),
    ("ribbon", [(20.3, 3.5), (26.7, 3.8), (31.5, 4.5), (42.8, 8.6)]),
    ("standard-bloom", [(5.9, 3.9), (6.2, 4.1), (9.7, 7.1), (27.4, 12.0)]),
    ("counting-bloom", [(16.1, 6.1), (20.4, 9.5), (34.9, 11.0), (170.7, 40.4)]),
    ("register-blocked-bloom", [(2.3, 1.0), (3.3, 1.0), (3.5, 1.5), (7.8, 10.9)]),
    ("cuckoo", [(10.8, 5.3), (21.1, 5.6), (25.8, 7.6), (55.8, 16.1)]),
    ("xor", [(21.2, 1.8), (28.9, 1.9), (52.4, 2.8), (155.7, 9.3)]),
    ("xor+", [(34.7, 9.0), (49.8, 9.4), (112.1, 13.7), (273.5, 18.8)]),
    ("binary-fuse", [(16.6, 1.9), (19.0, 2.0), (30.3, 2.8), (50.4, 8.5)]),
    ("binary-fuse-4", [(21.2, 2.3), (23.9, 2.5), (33.6, 3.2), (53.2, 6.9)]),
    ("line-ribbon", [(13.4, 1.6), (16.6, 1.7), (20.2, 2.2), (31.5, 4.3)]),
];
