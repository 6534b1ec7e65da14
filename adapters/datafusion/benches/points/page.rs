//! The page of results.

use std::fmt::Write;

use crate::measure::{Costs, Results};

const COMMAND: &str = "\
    cd adapters\n\
    cargo bench --profile dev -p sstfilter-datafusion --bench points";

pub(crate) fn text(results: &Results) -> String {
    let size = &results.size;
    let (files, keys) = (size.files as u64, (size.files * size.rows_per_file) as u64);
    let mut page = format!(
        "# Point queries with a file map: files and requests\n\n\
         ```sh\n{COMMAND}\n```\n\n\
         These commands write this page. A wrapper of an object store in memory counts each GET and HEAD that reaches it; \
         ranges that\nare close together are one GET, as in clients of S3. Neither files nor pages of the map are cached.\n\n\
         - **Table**: {} Parquet files with {} random ids each, in two row groups.\n\
         - **Map**: built by the session in {} jobs, which read {} bytes of files.\n  It has {} bytes, {:.1} bits per id, and is opened in {} requests.\n\
         - **Queries**: {} times `id = '...'` with the map, half of them for absent ids. Each had exactly the rows that\n  \
         a scan of the whole table without the map had. The first {} were repeated without the map.\n\n\
         | id | map | queries | files opened | most | requests for the map | most | all requests | bytes read |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|\n",
        grouped(files),
        grouped(size.rows_per_file as u64),
        results.build.0,
        grouped(results.build.1),
        grouped(results.map_bytes),
        results.map_bytes as f64 * 8.0 / keys as f64,
        results.opening,
        grouped(size.queries as u64),
        size.queries_without,
    );
    for (name, costs) in [("present", &results.present), ("absent", &results.absent)] {
        for (map, costs) in ["with", "without"].into_iter().zip(costs) {
            row(&mut page, name, map, costs);
        }
    }
    page.push_str("\nFiles, requests and bytes are means per query; \"most\" is the largest of any query.\n");
    page
}

fn row(page: &mut String, name: &str, map: &str, costs: &Costs) {
    let per_query = |count| costs.per_query(count);
    let row = writeln!(
        page,
        "| {name} | {map} | {} | {:.4} | {} | {:.4} | {} | {:.2} | {} |",
        grouped(costs.queries),
        per_query(costs.files),
        grouped(costs.max_files),
        per_query(costs.map_requests),
        costs.max_map_requests,
        per_query(costs.requests),
        grouped(costs.bytes / costs.queries),
    );
    // Writing to a string cannot fail.
    row.unwrap_or_default();
}

/// Returns the number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
