//! The cost of absent lookups: the engine's counters compared with the server's log.

use crate::cluster::Cluster;
use crate::protocol::{Cache, Counters, Filters, RoleConfig, Sst};
use crate::server::LoggedRequest;
use crate::{Error, Result};

/// A measurement: a reader, and the keys that it looks up.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The title of the measurement.
    pub title: &'static str,
    /// The store.
    pub store: &'a str,
    /// The reader's filter policies.
    pub filters: Filters,
    /// The reader's cache.
    pub cache: Cache,
    /// The required cost of the lookups.
    pub promise: Promise,
    /// Keys that are not in the store.
    pub absent: &'a [String],
}

/// The required cost of absent lookups, in GETs. An SST covers a key if the key is in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// One for each covering SST (its filter), and two for each false positive (index and data).
    FilterThenFalsePositives,
    /// One for each false positive (data): filters and indexes are cached.
    FalsePositives,
    /// Two for each covering SST: index and data.
    IndexAndData,
    /// Three for each covering SST: a filter of another policy, index and data.
    UselessFilterIndexAndData,
}

/// The measured cost of the lookups.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The title of the measurement.
    pub title: &'static str,
    /// The required cost of the lookups.
    pub promise: Promise,
    /// The number of keys looked up.
    pub lookups: u64,
    /// Pairs of a key and an SST that covers it, from the manifest.
    pub covering: u64,
    /// The engine's counters.
    pub engine: Counters,
    /// GETs of filter blocks, of index blocks and of data, and all bytes sent, from the server's log.
    pub server: ServerGets,
}

/// Sums of the server's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerGets {
    /// GETs of exactly a filter block.
    pub filters: u64,
    /// GETs of exactly an index block.
    pub indexes: u64,
    /// GETs of anything before the filter block: data.
    pub data: u64,
    /// Bytes of all three.
    pub bytes: u64,
}

impl Cost {
    /// Returns the GETs that the promise allows for the engine's count of false positives.
    #[must_use]
    pub fn promised(&self) -> u64 {
        let false_positives = self.engine.filter_false_positives;
        match self.promise {
            Promise::FilterThenFalsePositives => self.covering + 2 * false_positives,
            Promise::FalsePositives => false_positives,
            Promise::IndexAndData => 2 * self.covering,
            Promise::UselessFilterIndexAndData => 3 * self.covering,
        }
    }

    /// Returns the GETs that the engine counted.
    #[must_use]
    pub fn engine_gets(&self) -> u64 {
        self.engine.sum(&["get", "get_range", "get_ranges"])
    }

    /// Returns the GETs that the server logged.
    #[must_use]
    pub fn server_gets(&self) -> u64 {
        self.server.filters + self.server.indexes + self.server.data
    }

    /// Compares all counts.
    ///
    /// # Errors
    ///
    /// If the engine and the server disagree, or the promise is broken.
    pub fn check(&self) -> Result<()> {
        let filters_work = matches!(self.promise, Promise::FilterThenFalsePositives | Promise::FalsePositives);
        let evaluated = self.engine.filter_negatives + self.engine.filter_positives;
        let expected_evaluations = if filters_work { self.covering } else { 0 };
        let expected_data = if filters_work { self.engine.filter_false_positives } else { self.covering };
        self.same("GETs, promised and counted by the engine", self.promised(), self.engine_gets())?;
        self.same("GETs, counted by the engine and logged by the server", self.engine_gets(), self.server_gets())?;
        self.same("filters evaluated, by the manifest and by the engine", expected_evaluations, evaluated)?;
        self.same("GETs of data, expected and logged", expected_data, self.server.data)
    }

    fn same(&self, what: &str, left: u64, right: u64) -> Result<()> {
        if left == right { Ok(()) } else { Err(format!("{}: {what}: {left} and {right}\n{self:?}", self.title).into()) }
    }
}

/// Looks up absent keys in a new reader.
///
/// # Errors
///
/// If a key is found, or the server logged a request that no lookup needs.
pub async fn measure(cluster: &mut Cluster, ssts: &[Sst], question: &Question<'_>) -> Result<Cost> {
    let config = cluster.config("reader", question.store, question.filters);
    let config = RoleConfig { cache: question.cache, follow: cluster.checkpoint(question.store).await?, ..config };
    let mut reader = cluster.spawn("reader", &config).await?;
    if question.cache != Cache::Nothing {
        // The first pass caches every filter and index that the second needs, because the same keys meet the same false
        // positives. Present keys would not do: the engine reads several SSTs at once and abandons the rest when it
        // finds the key, so its counters and the log would differ.
        reader.get(question.absent).await?;
    }

    let before = reader.counters().await?;
    let logged_before = requests_of(cluster, &config.name)?.len();
    let values = reader.get(question.absent).await?;
    let engine = reader.counters().await?.since(&before);
    let logged = requests_of(cluster, &config.name)?.split_off(logged_before);

    if let Some(found) = values.iter().position(Option::is_some) {
        return Err(format!("{}: found {}, which was never written", question.title, question.absent[found]).into());
    }
    let all = reader.close().await?;
    same_requests(&config.name, &all, &requests_of(cluster, &config.name)?)?;
    Ok(Cost {
        title: question.title,
        promise: question.promise,
        lookups: question.absent.len() as u64,
        covering: question.absent.iter().map(|key| ssts.iter().filter(|sst| sst.covers(key)).count() as u64).sum(),
        engine,
        server: sum(ssts, &logged)?,
    })
}

/// Returns the requests of one process.
///
/// # Errors
///
/// If the log cannot be read.
pub fn requests_of(cluster: &mut Cluster, client: &str) -> Result<Vec<LoggedRequest>> {
    Ok(cluster.requests()?.iter().filter(|request| request.client == client).cloned().collect())
}

/// Compares all requests of a process's life with the engine's counters, method by method.
///
/// # Errors
///
/// If they differ, or if a response failed, because the client then repeats requests below the engine's counters.
pub fn same_requests(client: &str, engine: &Counters, server: &[LoggedRequest]) -> Result<()> {
    if let Some(failed) = server.iter().find(|request| request.status >= 500 || !request.complete) {
        return Err(format!("{client}: a request failed or was given up: {failed:?}").into());
    }
    let logged = |method: &str, of_an_object: bool| {
        let same = |request: &&LoggedRequest| request.method == method && request.key.is_empty() != of_an_object;
        server.iter().filter(same).count() as u64
    };
    let pairs = [
        ("GET", logged("GET", true), engine.sum(&["get", "get_range", "get_ranges"])),
        ("HEAD", logged("HEAD", true), engine.sum(&["head"])),
        ("LIST", logged("GET", false), engine.sum(&["list", "list_with_offset", "list_with_delimiter"])),
        ("PUT", logged("PUT", true), engine.sum(&["put", "multipart_part"])),
    ];
    match pairs.iter().find(|(_, server, engine)| server != engine) {
        Some((method, server, engine)) => {
            Err(format!("{client}: the server logged {server} requests {method}, the engine counted {engine}").into())
        }
        None => Ok(()),
    }
}

fn sum(ssts: &[Sst], requests: &[LoggedRequest]) -> Result<ServerGets> {
    let mut sums = ServerGets::default();
    for request in requests {
        let unexpected = || -> Error { format!("no lookup needs {request:?}").into() };
        let sst = ssts.iter().find(|sst| sst.key == request.key).ok_or_else(unexpected)?;
        let (first, length) = range(request).ok_or_else(unexpected)?;
        match (first, length) {
            filter if filter == sst.filter => sums.filters += 1,
            index if index == sst.index => sums.indexes += 1,
            (first, length) if first + length <= sst.index.0 => sums.data += 1,
            _ => return Err(unexpected()),
        }
        sums.bytes += request.bytes_sent;
    }
    Ok(sums)
}

/// Returns offset and length of a ranged GET.
fn range(request: &LoggedRequest) -> Option<(u64, u64)> {
    if request.method != "GET" || request.status != 206 {
        return None;
    }
    let (first, last) = request.range.as_deref()?.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some((first, last + 1 - first))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Ten lookups of eight SSTs with two false positives, as it should be.
    fn cost() -> Cost {
        Cost {
            title: "a cost",
            promise: Promise::FilterThenFalsePositives,
            lookups: 10,
            covering: 80,
            engine: Counters {
                requests: BTreeMap::from([("get_range".to_owned(), 84)]),
                filter_negatives: 78,
                filter_positives: 2,
                filter_false_positives: 2,
            },
            server: ServerGets { filters: 80, indexes: 2, data: 2, bytes: 1 },
        }
    }

    #[test]
    fn a_cost_that_keeps_its_promise_passes() {
        assert!(cost().check().is_ok());
    }

    #[test]
    fn one_get_more_or_less_breaks_the_promise() {
        for gets in [83, 85] {
            let mut cost = cost();
            cost.engine.requests.insert("get_range".to_owned(), gets);
            assert!(cost.check().is_err(), "{gets} counted by the engine");
        }
        for filters in [79, 81] {
            let mut cost = cost();
            cost.server.filters = filters;
            assert!(cost.check().is_err(), "{filters} filters logged by the server");
        }
    }

    #[test]
    fn a_filter_that_was_not_evaluated_breaks_the_promise() {
        let mut cost = cost();
        cost.engine.filter_negatives -= 1;
        assert!(cost.check().is_err());
    }

    #[test]
    fn a_request_that_the_engine_did_not_count_is_found() {
        let request = LoggedRequest {
            number: 0,
            client: "reader".to_owned(),
            method: "GET".to_owned(),
            key: "store/compacted/1.sst".to_owned(),
            query: None,
            range: None,
            status: 206,
            bytes_sent: 1,
            complete: true,
        };
        let engine = Counters { requests: BTreeMap::from([("get_range".to_owned(), 1)]), ..Counters::default() };
        assert!(same_requests("reader", &engine, std::slice::from_ref(&request)).is_ok());
        assert!(same_requests("reader", &engine, &[request.clone(), request.clone()]).is_err());
        assert!(same_requests("reader", &engine, &[LoggedRequest { status: 503, ..request }]).is_err());
    }
}
