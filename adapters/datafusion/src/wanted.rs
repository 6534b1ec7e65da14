//! Which files may have a row for which a predicate is true, as far as maps can tell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::core::r#struct::StructFunc;
use datafusion::logical_expr::Operator;
use datafusion::object_store::path::Path;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, Literal};
use datafusion::physical_expr::utils::{split_conjunction, split_disjunction};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use sstfilter::KeyHash;
use sstfilter_map_store::Snapshot;

use crate::keys::{has_same_keys, key_of};

/// Clauses that are kept. Each `OR` of `AND`s would square their number, and to drop some only leaves more files.
const MAX_CLAUSES: usize = 8;

/// The maps of a column's values.
pub(crate) struct ColumnMaps {
    pub(crate) column: String,
    #[cfg_attr(not(feature = "proto"), expect(dead_code, reason = "only other processes need it"))]
    pub(crate) folder: Path,
    pub(crate) data_type: DataType,
    pub(crate) snapshot: Snapshot,
}

/// The conditions of a file that has a row for which the predicate is true: all clauses, as a conjunction of
/// disjunctions. Without clauses, nothing is known of the file. An empty clause holds of none.
///
/// Each expression has the clauses of the rows for which it is true. Rows for which it is false or NULL are the same to a
/// filter. Of these, nothing is known here, and so there is no `NOT`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    clauses: Vec<Clause>,
}

/// The file has one of the keys of a column, for one of the columns: by the position of the column's maps.
type Clause = BTreeMap<usize, BTreeSet<KeyHash>>;

type Expression = Arc<dyn PhysicalExpr>;

impl Wanted {
    fn of_no_file() -> Self {
        Self { clauses: vec![Clause::new()] }
    }

    /// Returns what must hold of a file, so that one of its rows may make the predicate true.
    pub(crate) fn of(predicate: &Expression, maps: &[Arc<ColumnMaps>]) -> Self {
        // Without a limit of depth: the engine descends into predicates, too.
        if let Ok(Some(current)) = predicate.snapshot() {
            return Self::of(&current, maps);
        }
        if let Some(literal) = predicate.downcast_ref::<Literal>() {
            let value = literal.value();
            let is_true = !value.is_null() && *value != ScalarValue::Boolean(Some(false));
            return if is_true { Self::default() } else { Self::of_no_file() };
        }
        if let Some(binary) = predicate.downcast_ref::<BinaryExpr>() {
            return Self::of_binary(predicate, binary, maps);
        }
        if let Some(list) = predicate.downcast_ref::<InListExpr>().filter(|list| !list.negated()) {
            let literals: Option<Vec<_>> = list.list().iter().map(literal).collect();
            return literals.map_or_else(Self::default, |literals| Self::of_values(list.expr(), &literals, maps));
        }
        predicate.downcast_ref::<CaseExpr>().map_or_else(Self::default, |case| Self::of_case(case, maps))
    }

    fn of_binary(predicate: &Expression, binary: &BinaryExpr, maps: &[Arc<ColumnMaps>]) -> Self {
        let of_all = |terms: Vec<&Expression>| terms.into_iter().map(|term| Self::of(term, maps)).collect::<Vec<_>>();
        match binary.op() {
            Operator::And => of_all(split_conjunction(predicate)).into_iter().fold(Self::default(), Self::and),
            Operator::Or => Self::any(of_all(split_disjunction(predicate))),
            operator @ (Operator::Eq | Operator::IsNotDistinctFrom) => {
                let (side, value) = match (literal(binary.left()), literal(binary.right())) {
                    (None, Some(value)) => (binary.left(), value),
                    (Some(value), None) => (binary.right(), value),
                    _ => return Self::default(),
                };
                match value {
                    // `(...) IS TRUE` is planned like this.
                    ScalarValue::Boolean(Some(true)) => Self::of(side, maps),
                    value if value.is_null() && *operator == Operator::IsNotDistinctFrom => Self::default(),
                    value => Self::of_values(side, &[value], maps),
                }
            }
            _ => Self::default(),
        }
    }

    /// Returns what must hold of a file that has a row with one of the values. No row is equal to NULL.
    fn of_values(side: &Expression, values: &[&ScalarValue], maps: &[Arc<ColumnMaps>]) -> Self {
        if let Some(tuple) = ScalarFunctionExpr::try_downcast_func::<StructFunc>(side.as_ref()) {
            return Self::any(values.iter().map(|values| Self::of_tuple(tuple.args(), values, maps)).collect());
        }
        let cast = side.downcast_ref::<CastExpr>();
        let Some(column) = cast.map_or(side, CastExpr::expr).downcast_ref::<Column>() else { return Self::default() };
        let own = maps.iter().enumerate().filter(|(_, map)| {
            map.column == column.name() && cast.is_none_or(|cast| has_same_keys(cast.cast_type(), &map.data_type))
        });
        let clauses = own.filter_map(|(at, map)| {
            let keys = values.iter().filter(|value| !value.is_null()).map(|value| key_of(value, &map.data_type));
            let hashes = keys.map(|key| key.map(|key| map.snapshot.hash(&key))).collect::<Option<BTreeSet<_>>>()?;
            Some(if hashes.is_empty() { Clause::new() } else { Clause::from([(at, hashes)]) })
        });
        Self { clauses: clauses.collect() }
    }

    /// Returns what must hold of a file that has a row whose columns are equal to a tuple: a join by several columns
    /// wants such rows.
    fn of_tuple(columns: &[Expression], tuple: &ScalarValue, maps: &[Arc<ColumnMaps>]) -> Self {
        let ScalarValue::Struct(tuple) = tuple else { return Self::default() };
        let terms =
            columns.iter().zip(tuple.columns()).map(|(column, value)| match ScalarValue::try_from_array(value, 0) {
                // Here, NULL may be equal to NULL.
                Ok(value) if !value.is_null() => Self::of_values(column, &[&value], maps),
                _ => Self::default(),
            });
        terms.fold(Self::default(), Self::and)
    }

    /// Returns what must hold of a file that has a row for which one of the branches is true: joins of partitions have
    /// a branch for each partition.
    fn of_case(case: &CaseExpr, maps: &[Arc<ColumnMaps>]) -> Self {
        let branches = case.when_then_expr().iter().map(|(when, then)| {
            // With an operand, it is compared to values.
            let when = if case.expr().is_none() { Self::of(when, maps) } else { Self::default() };
            when.and(Self::of(then, maps))
        });
        let otherwise = case.else_expr().map_or_else(Self::of_no_file, |otherwise| Self::of(otherwise, maps));
        Self::any(branches.chain([otherwise]).collect())
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        for clause in other.clauses {
            let own = self.clauses.iter_mut().find(|own| own.len() == 1 && own.keys().eq(clause.keys()));
            if let Some(own) = own {
                // Both are true for one row, and the row has one value.
                let both = own.iter_mut().zip(clause.values());
                both.for_each(|((_, keys), other)| keys.retain(|key| other.contains(key)));
                own.retain(|_, keys| !keys.is_empty());
            } else if self.clauses.len() < MAX_CLAUSES {
                self.clauses.push(clause);
            }
        }
        self
    }

    /// Returns what must hold of a file for which one of several holds.
    fn any(mut all: Vec<Self>) -> Self {
        // In halves, so that no long list is copied once for each short one.
        if all.len() > 1 {
            let rest = all.split_off(all.len() / 2);
            return Self::any(all).or(&Self::any(rest));
        }
        all.pop().unwrap_or_else(Self::of_no_file)
    }

    fn or(self, other: &Self) -> Self {
        let pairs = self.clauses.iter().flat_map(|one| other.clauses.iter().map(move |two| (one, two)));
        let both = pairs.map(|(one, two)| {
            let mut both = one.clone();
            two.iter().for_each(|(&at, keys)| both.entry(at).or_default().extend(keys));
            both
        });
        let mut clauses: Vec<_> = both.collect();
        // Clauses of the fewest columns and keys exclude the most files.
        clauses.sort_by_key(|clause| (clause.len(), clause.values().map(BTreeSet::len).sum::<usize>()));
        clauses.dedup();
        clauses.truncate(MAX_CLAUSES);
        Self { clauses }
    }

    /// Clears the marks of files of which a clause does not hold. Reads no pages of a column if they are more than
    /// `max_pages`, or more than the files that its maps cover. Returns the number of columns whose maps have answered.
    pub(crate) async fn retain(&self, maps: &[Arc<ColumnMaps>], is_searched: &mut [bool], max_pages: usize) -> u64 {
        let mut answers = 0;
        let mut holds = vec![vec![false; is_searched.len()]; self.clauses.len()];
        for (at, map) in maps.iter().enumerate() {
            let (clauses, sets): (Vec<_>, Vec<_>) = self
                .clauses
                .iter()
                .enumerate()
                .filter_map(|(clause, columns)| Some((clause, columns.get(&at)?.iter().copied().collect())))
                .unzip();
            if clauses.is_empty() {
                continue;
            }
            let covered = is_searched.len() - map.snapshot.uncovered().len();
            let found = map.snapshot.candidates_of_sets(&sets, covered.min(max_pages)).await;
            answers += u64::from(found.is_some());
            for (set, clause) in clauses.into_iter().enumerate() {
                for (position, holds) in holds[clause].iter_mut().enumerate() {
                    *holds |= found.as_ref().is_none_or(|found| found[set][position]);
                }
            }
        }
        for holds in holds {
            is_searched.iter_mut().zip(holds).for_each(|(is_searched, holds)| *is_searched &= holds);
        }
        answers
    }
}

fn literal(expression: &Expression) -> Option<&ScalarValue> {
    Some(expression.downcast_ref::<Literal>()?.value())
}
