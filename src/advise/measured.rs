//! Measured times of building and probing, written by `sstfilter-peers advice` from `benches/results`.

/// Name of a kind or variant, and its nanoseconds per key to build and per absent key to probe in batches, with 10,000,
/// 100,000, 1,000,000 and 10,000,000 keys.
pub(super) const MEASURED: &[(&str, [(f64, f64); 4])] = &[
    ("bloom", [(1.6, 1.1), (1.6, 1.2), (2.9, 1.7), (5.1, 4.0)]),
    ("ribbon", [(34.6, 5.8), (39.1, 6.4), (41.2, 7.0), (51.2, 11.0)]),
    ("standard-bloom", [(6.7, 4.7), (7.1, 5.1), (11.6, 8.5), (23.4, 16.2)]),
    ("counting-bloom", [(18.2, 7.5), (26.9, 11.2), (38.9, 12.6), (38.9, 12.6)]),
    ("register-blocked-bloom", [(2.7, 1.1), (3.7, 1.1), (4.1, 2.0), (5.7, 4.6)]),
    ("cuckoo", [(18.7, 6.3), (21.0, 6.8), (31.8, 10.1), (42.5, 18.6)]),
    ("xor", [(31.0, 3.3), (40.7, 3.6), (66.0, 6.1), (208.3, 9.8)]),
    ("xor+", [(50.6, 10.4), (64.7, 11.1), (93.0, 15.6), (283.4, 26.2)]),
    ("binary-fuse", [(24.1, 2.9), (25.2, 3.2), (34.2, 6.5), (64.0, 9.0)]),
    ("binary-fuse-4", [(29.6, 4.2), (30.0, 4.3), (36.6, 8.2), (67.5, 12.1)]),
];
