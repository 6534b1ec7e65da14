//! The figures as comma-separated values, with one header for all sections.

use serde::Serialize;
use serde_json::Value;

use super::Family;

/// The columns: the section, and the fields of its figures as `measure.json` names them.
pub(super) const HEADER: &str = "section,filter,keys,target_fpr,bytes,bits_per_key,expected_fpr,observed_fpr,build_ns_per_key,\
    query_one_ns,query_batch_ns,planned_keys,offered_keys,offered_percent,refused_keys,fill_ratio,alarms";

/// Returns the whole file.
pub(super) fn csv(family: &Family) -> serde_json::Result<String> {
    let mut out = format!("{HEADER}\n");
    append(&mut out, "rates", &family.rates)?;
    append(&mut out, "by_keys", &family.by_keys)?;
    append(&mut out, "overfill", &family.overfill)?;
    Ok(out)
}

/// Appends a line for each of `points`; fields that they do not have stay empty.
fn append(out: &mut String, section: &str, points: &[impl Serialize]) -> serde_json::Result<()> {
    for point in points {
        let value = serde_json::to_value(point)?;
        // By the names of the JSON fields, so that both files agree.
        let fields = HEADER.split(',').skip(1).map(|column| field(&value[column]));
        *out += &std::iter::once(section.to_owned()).chain(fields).collect::<Vec<_>>().join(",");
        out.push('\n');
    }
    Ok(())
}

/// Formats a field. None contains a comma: names do not, and spaces join lists.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(field).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}
