//! Measured times of building and probing, written by `sstfilter-peers advice` from `benches/results`.

/// Name of a kind or variant, with its nanoseconds per key to build and per absent key to probe in batches, at 10,000,
/// 100,000, 1,000,000 and 10,000,000 keys.
pub(super) const MEASURED: &[(&str, [(f64, f64); 4])] = &[
    ("bloom", [(1.9, 1.3), (1.8, 1.5), (2.4, 1.8), (4.3, 4.0)]),
    ("ribbon", [(24.2, 3.9), (25.0, 4.4), (36.2, 4.9), (47.0, 11.7)]),
    ("standard-bloom", [(5.8, 3.9), (5.9, 4.4), (8.6, 6.0), (26.9, 14.9)]),
    ("counting-bloom", [(19.1, 5.8), (21.1, 6.9), (41.7, 10.5), (144.8, 24.5)]),
    ("register-blocked-bloom", [(4.7, 1.1), (4.8, 1.2), (5.4, 1.5), (7.8, 4.8)]),
    ("cuckoo", [(14.1, 4.6), (16.4, 5.1), (20.1, 6.5), (55.6, 12.9)]),
    ("xor", [(20.4, 2.3), (23.8, 2.5), (57.9, 3.6), (152.7, 12.7)]),
    ("xor+", [(38.8, 7.7), (46.3, 8.0), (92.2, 10.2), (280.3, 21.2)]),
    ("binary-fuse", [(16.0, 2.0), (16.4, 2.1), (31.8, 3.9), (49.5, 12.6)]),
    ("binary-fuse-4", [(20.2, 3.0), (19.6, 3.1), (32.1, 4.9), (52.4, 15.5)]),
    ("line-ribbon", [(20.6, 1.6), (18.0, 1.7), (29.4, 2.2), (35.0, 4.7)]),
];
