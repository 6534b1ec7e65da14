//! Parquet files of random ids, and the rows that queries of them must have.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::SessionContext;
use fastrand::Rng;

use crate::Failure;

/// A row: an id, and an amount.
pub type Row = (String, i64);

/// The rows of a folder of files.
#[derive(Default)]
pub struct Data {
    /// The amounts of each id, and the files that have them.
    rows: HashMap<String, Vec<(usize, i64)>>,
    /// The ids of each file.
    files: Vec<Vec<String>>,
    gone: HashSet<usize>,
    pub random: Rng,
}

fn name(file: usize) -> String {
    format!("{file:06}.parquet")
}

fn schema() -> SchemaRef {
    let fields = [("id", DataType::Utf8), ("amount", DataType::Int64), ("payload", DataType::Utf8)];
    Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
}

impl Data {
    pub fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), ..Self::default() }
    }

    pub fn random_id(&mut self) -> String {
        format!("{:016x}", self.random.u64(..))
    }

    /// Writes `files` files of `rows` rows each, of which 2 % have an id of another file.
    pub fn write(&mut self, folder: &Path, files: usize, rows: usize) -> Result<(), Failure> {
        for _ in 0..files {
            let number = self.files.len();
            let ids: Vec<_> = (0..rows).map(|_| self.id_of_row()).collect();
            let amounts: Vec<_> = ids.iter().map(|_| self.random.i64(0..1000)).collect();
            for (id, amount) in ids.iter().zip(&amounts) {
                self.rows.entry(id.clone()).or_default().push((number, *amount));
            }
            let payloads: Vec<_> = (0..rows).map(|_| format!("{:x}", self.random.u128(..))).collect();
            let columns: [Arc<dyn Array>; 3] = [
                Arc::new(StringArray::from(ids.clone())),
                Arc::new(Int64Array::from(amounts)),
                Arc::new(StringArray::from(payloads)),
            ];
            let mut writer = ArrowWriter::try_new(File::create_new(folder.join(name(number)))?, schema(), None)?;
            writer.write(&RecordBatch::try_new(schema(), columns.to_vec())?)?;
            writer.close()?;
            self.files.push(ids);
        }
        Ok(())
    }

    fn id_of_row(&mut self) -> String {
        if !self.files.is_empty() && self.random.u8(0..50) == 0 { self.present_id() } else { self.random_id() }
    }

    pub fn present_id(&mut self) -> String {
        let file = self.random.usize(0..self.files.len());
        let ids = &self.files[file];
        ids[self.random.usize(0..ids.len())].clone()
    }

    /// Deletes a file.
    pub fn delete(&mut self, folder: &Path) -> std::io::Result<()> {
        let file = self.random.usize(0..self.files.len());
        if self.gone.insert(file) { std::fs::remove_file(folder.join(name(file))) } else { Ok(()) }
    }

    /// Returns how many files have an id.
    pub fn files_with(&self, id: &str) -> usize {
        self.rows_of(id).map(|(file, _)| file).collect::<HashSet<_>>().len()
    }

    /// Returns the rows of an id, sorted.
    pub fn rows_with(&self, id: &str) -> Vec<Row> {
        let mut rows: Vec<_> = self.rows_of(id).map(|(_, amount)| (id.to_owned(), amount)).collect();
        rows.sort();
        rows
    }

    pub fn len(&self) -> usize {
        self.files.len() - self.gone.len()
    }

    fn rows_of(&self, id: &str) -> impl Iterator<Item = (usize, i64)> {
        self.rows.get(id).into_iter().flatten().copied().filter(|(file, _)| !self.gone.contains(file))
    }

    /// Returns a random predicate, and the rows for which it is true.
    pub fn query(&mut self) -> (String, Vec<Row>) {
        let ids: Vec<_> = (0..=self.random.usize(0..4)).map(|_| self.some_id()).collect();
        let amount = self.random.i64(0..1000);
        let list = ids.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>();
        let (predicate, has_amount): (String, fn(i64, i64) -> bool) = match self.random.u8(0..6) {
            0 => (format!("id = {}", list.join(" OR id = ")), |_, _| true),
            1 => (format!("id IN ({})", list.join(", ")), |_, _| true),
            2 => (format!("id IN ({}) AND amount < {amount}", list.join(", ")), |own, than| own < than),
            3 => (format!("NOT (amount < {amount}) AND id IN ({})", list.join(", ")), |own, than| own >= than),
            4 => (format!("id IN ({}) AND (amount = {amount} OR id <> '')", list.join(", ")), |_, _| true),
            _ => (format!("id IN ({}, NULL)", list.join(", ")), |_, _| true),
        };
        let ids: HashSet<_> = ids.into_iter().collect();
        let rows = ids.iter().flat_map(|id| self.rows_of(id).map(move |(_, own)| (id.clone(), own)));
        let mut rows: Vec<_> = rows.filter(|(_, own)| has_amount(*own, amount)).collect();
        rows.sort();
        (predicate, rows)
    }

    fn some_id(&mut self) -> String {
        if self.random.bool() { self.present_id() } else { self.random_id() }
    }
}

/// Returns the rows of a query of ids and amounts, sorted.
pub async fn rows(session: &SessionContext, predicate: &str) -> Result<Vec<Row>, Failure> {
    let query = format!("SELECT id, amount FROM events WHERE {predicate}");
    let mut rows = Vec::new();
    for batch in session.sql(&query).await?.collect().await? {
        let ids = cast(batch.column(0), &DataType::Utf8)?;
        let (ids, amounts) =
            (ids.as_any().downcast_ref::<StringArray>(), batch.column(1).as_any().downcast_ref::<Int64Array>());
        let (Some(ids), Some(amounts)) = (ids, amounts) else { return Err("expected ids and amounts".into()) };
        rows.extend(
            ids.iter().zip(amounts).map(|(id, amount)| (id.unwrap_or_default().to_owned(), amount.unwrap_or_default())),
        );
    }
    rows.sort();
    Ok(rows)
}
