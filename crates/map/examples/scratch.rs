//! Scratch.
#![allow(warnings)]
use sstfilter::*;
use sstfilter_map::*;
use std::time::Instant;
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
    z ^ (z >> 31)
}
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (files, keys, page) = (a[0], a[1], a.get(2).copied().unwrap_or(65536));
    let filters = Filters::default();
    let options = MapOptions::for_entries(files * keys, FalsePositiveRate::new(0.009).unwrap())
        .unwrap()
        .with_page_bytes(page as u32)
        .unwrap();
    let mut builder = MapBuilder::new(&filters, options);
    let h = |f: u64, k: u64| KeyHash::from_well_mixed(mix(f << 32 | k));
    let ids: Vec<_> = (0..files).map(|f| FileId::from_fingerprint(mix(f ^ 0xabcdef))).collect();
    let t = Instant::now();
    for f in 0..files {
        let mut v: Vec<_> = (0..keys).map(|k| h(f, k)).collect();
        v.sort_unstable();
        builder.add_file(ids[f as usize], v);
    }
    let t1 = t.elapsed();
    let t = Instant::now();
    let mut out = Vec::new();
    let report = builder.finish(ids[0], &mut out).unwrap();
    let n = (files * keys) as f64;
    println!(
        "{report:?} {:.3} bits H {} prep {:.1} build {:.1} ns",
        report.bits_per_entry(),
        options.prefix_bits(),
        t1.as_nanos() as f64 / n,
        t.elapsed().as_nanos() as f64 / n
    );
    let t = Instant::now();
    let map = FileMap::load(&out[..], &filters, ids[0]).unwrap();
    println!("load {:?} problems {}", t.elapsed(), map.problems().count());
    let mut lost = 0;
    let step = (n as u64 / 2_000_000).max(1);
    for i in (0..files * keys).step_by(step as usize) {
        let (f, k) = (i / keys, i % keys);
        let id = map.index().local_id(ids[f as usize]).unwrap();
        if !map.candidates(h(f, k)).may_contain(id) {
            lost += 1;
        }
    }
    println!("lost {lost}");
    let absent: Vec<_> = (0..1u64 << 20).map(|k| h(1 << 30, k)).collect();
    for _ in 0..3 {
        let t = Instant::now();
        let mut c = 0u64;
        for &x in &absent {
            match map.candidates(x) {
                Candidates::Only(i) => c += i.count() as u64,
                Candidates::All => c += 1000,
            }
        }
        let one = t.elapsed();
        let t = Instant::now();
        let mut d = 0u64;
        map.candidates_each(&absent, |_, i| match i {
            Candidates::Only(i) => d += i.count() as u64,
            _ => d += 1000,
        });
        let batch = t.elapsed();
        let p: Vec<_> = (0..1u64 << 20).map(|k| h(mix(k) % files, mix(k ^ 77) % keys)).collect();
        let t = Instant::now();
        let mut e = 0u64;
        for &x in &p {
            match map.candidates(x) {
                Candidates::Only(i) => e += i.count() as u64,
                Candidates::All => e += 1000,
            }
        }
        println!(
            "absent {:.2} batch {:.2} present {:.2} ns; false {:.5} {:.5} expected {:.5} found {:.4}",
            one.as_nanos() as f64 / 1048576.,
            batch.as_nanos() as f64 / 1048576.,
            t.elapsed().as_nanos() as f64 / 1048576.,
            c as f64 / 1048576.,
            d as f64 / 1048576.,
            map.index().expected_false_candidates(),
            e as f64 / 1048576.
        );
    }

    // merge of 8
    let parts: Vec<Vec<u8>> = (0..8u64)
        .map(|part| {
            let mut b = MapBuilder::new(&filters, options);
            for f in (0..files).filter(|f| f % 8 == part) {
                let mut v: Vec<_> = (0..keys).map(|k| h(f, k)).collect();
                v.sort_unstable();
                b.add_file(ids[f as usize], v);
            }
            let mut o = Vec::new();
            b.finish(ids[0], &mut o).unwrap();
            o
        })
        .collect();
    let t = Instant::now();
    let mut m = MapMerge::new(options);
    for p in &parts {
        m.add(MapIndex::load_any(p, p.len() as u64).unwrap(), |r| {
            Ok(std::borrow::Cow::Borrowed(&p[r.start as usize..r.end as usize]))
        })
        .unwrap();
    }
    let mut merged = Vec::new();
    let r = m.finish(ids[0], &mut merged).unwrap();
    println!("merge {:.1} ns equal {} unknown {}", t.elapsed().as_nanos() as f64 / n, merged == out, r.unknown_pages);
}
