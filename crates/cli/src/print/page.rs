//! The page of JSON fields, from the records that the commands print.

use super::names::meaning;
use super::record::{Field, Kind, Schema};

/// A command, and the record that it prints.
pub(crate) type Report = (&'static str, &'static Schema);

/// Returns a table of the names that several commands print, and one of the other names for each command.
pub(crate) fn page(reports: &[Report]) -> String {
    let of_command = |schema: &'static Schema| named_once(fields(schema));
    let commands: Vec<_> = reports.iter().map(|&(command, schema)| (command, schema, of_command(schema))).collect();
    let is_common = |field: &Field| {
        let has_it = |fields: &[&'static Field]| fields.iter().any(|other| other.name == field.name);
        commands.iter().filter(|(.., fields)| has_it(fields)).count() > 1
    };
    let all = named_once(commands.iter().flat_map(|(.., fields)| fields.iter().copied()));
    let common: Vec<_> = all.into_iter().filter(|field| is_common(field)).collect();
    let mut page = if common.is_empty() { String::new() } else { section("In several commands", "", &common) };
    for (command, schema, fields) in &commands {
        let own: Vec<_> = fields.iter().copied().filter(|field| !is_common(field)).collect();
        page += &section(&format!("`{command}`"), schema.about.trim(), &own);
    }
    page
}

fn section(title: &str, about: &str, fields: &[&'static Field]) -> String {
    let about = if about.is_empty() { String::new() } else { format!("{about}\n\n") };
    let rows: String = fields.iter().map(|field| row(field)).collect();
    format!("\n## {title}\n\n{about}| field | meaning |\n|---|---|\n{rows}")
}

fn row(field: &Field) -> String {
    let meaning = in_cell(meaning(field));
    let inside = match field.kind {
        Kind::One(schema) | Kind::Many(schema) => list(schema.fields.iter().map(|field| format!("`{}`", field.name))),
        Kind::Word(words) => list(words.iter().map(|word| match word.about.trim().trim_end_matches('.') {
            "" => format!("`{}`", word.text),
            about => format!("`{}` ({about})", word.text),
        })),
        _ => String::new(),
    };
    format!("| `{}` | {meaning}{inside} |\n", field.name)
}

/// Returns a sentence as the cell of a table: without a capital and a full stop.
fn in_cell(sentence: &str) -> String {
    let mut rest = sentence.trim_end_matches('.').chars();
    let first = rest.next().filter(|_| !rest.as_str().starts_with(char::is_uppercase));
    match first {
        Some(first) => first.to_lowercase().chain(rest).collect(),
        None => sentence.trim_end_matches('.').to_owned(),
    }
}

/// Returns items after a colon, with commas.
fn list(items: impl Iterator<Item = String>) -> String {
    format!(": {}", items.collect::<Vec<_>>().join(", "))
}

/// Returns the fields of a record and of all records inside.
fn fields(schema: &'static Schema) -> Vec<&'static Field> {
    let inside = |field: &'static Field| match field.kind {
        Kind::One(schema) | Kind::Many(schema) => fields(schema),
        _ => Vec::new(),
    };
    schema.fields.iter().flat_map(|field| [vec![field], inside(field)].concat()).collect()
}

/// Returns the first field of each name.
fn named_once(fields: impl IntoIterator<Item = &'static Field>) -> Vec<&'static Field> {
    let mut once: Vec<&'static Field> = Vec::new();
    for field in fields {
        if once.iter().all(|other| other.name != field.name) {
            once.push(field);
        }
    }
    once
}

/// Returns what is wrong with the names in these records: a name has one meaning and one type in the whole program, and
/// says its unit.
#[cfg(test)]
pub(crate) fn faults(reports: &[Report]) -> Vec<String> {
    let all: Vec<_> = reports.iter().flat_map(|(_, schema)| fields(schema)).collect();
    let mut faults: Vec<_> = all.iter().filter_map(|field| fault(field)).collect();
    for (position, field) in all.iter().enumerate() {
        let other = all[..position].iter().find(|other| other.name == field.name);
        if other.is_some_and(|other| meaning(other) != meaning(field) || !is_same(other.kind, field.kind)) {
            faults.push(format!("{} has two meanings or two types", field.name));
        }
    }
    for (_, schema) in reports {
        let columns = super::blocks::columns(schema);
        let is_repeated = |position: usize| columns[..position].contains(&columns[position]);
        let repeated = (0..columns.len()).filter(|&position| is_repeated(position));
        faults.extend(repeated.map(|position| format!("{}: two columns are {}", schema.name, columns[position])));
    }
    faults.extend(super::names::unneeded(&all).iter().map(|name| format!("no field needs the common name {name}")));
    faults
}

/// Whether two fields have one type. Commands may say different things about each of several files.
#[cfg(test)]
fn is_same(one: Kind, other: Kind) -> bool {
    one == other || matches!((one, other), (Kind::Many(_), Kind::Many(_)))
}

#[cfg(test)]
fn fault(field: &Field) -> Option<String> {
    let units: &[&str] = match field.kind {
        Kind::Bytes => &["bytes"],
        Kind::Bits => &["bits"],
        Kind::Nanoseconds => &["ns"],
        Kind::Seconds => &["seconds"],
        Kind::Dollars => &["dollars"],
        Kind::Rate => &["fpr", "rate", "share", "margin", "ratio"],
        _ => &[],
    };
    let has_unit = units.is_empty() || field.name.split('_').any(|word| units.contains(&word));
    if meaning(field).is_empty() {
        Some(format!("{} has no meaning", field.name))
    } else if has_unit {
        None
    } else {
        Some(format!("{} does not say its unit: {units:?}", field.name))
    }
}
