//! What the filters of tables cost, and what those of other policies would cost for the same tables.

use sstfilter::kind::RibbonKind;
use sstfilter::{BitsPerKey, FalsePositiveRate, FixedPolicy, Sizing};

use super::file::FileReport;
use crate::file::problem::State;
use crate::print::types::{Bits, Bytes, Rate};
use crate::print::{record, words};
use crate::words::units::{brief_percent, counted};

/// Bytes that binding a block to its file adds.
const BINDING_BYTES: u64 = 8;

record! {
    /// The cost of filters for all tables.
    pub(crate) struct Cost {
        pub(crate) choice: String [row],
        pub(crate) filter_bytes: Bytes [row],
        pub(crate) bits_per_key: Bits [row],
        pub(crate) mean_fpr: Rate [row],
        /// share of the present bytes that the filters save; negative if they take more
        pub(crate) saved_share: Option<Rate> [row],
        pub(crate) kept_filters: u64 [json],
    }
}

/// The filter that readers use for a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableFilter {
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
    pub(crate) fpr: f64,
}

/// What other filters keep of the present ones.
#[derive(Clone, Copy, Debug)]
enum Goal {
    Rate,
    Bytes,
    /// Nothing: an option of the command line names the size or rate.
    Chosen(Sizing),
}

words! {
    /// A policy of the library. The first two differ only in what a size means: for `auto` it is that of a Bloom
    /// filter, of which Ribbon keeps the rate. Both fall back to Bloom for small tables.
    enum Policy {
        Auto = "auto",
        Ribbon = "ribbon",
        Bloom = "bloom",
    }
}

impl TableFilter {
    /// Returns the filter of keys that readers use. If its rate does not follow from its shape, it is the observed one.
    pub(crate) fn of(file: &FileReport) -> Option<Self> {
        let filter = file.key_filter()?;
        let observed = || file.observed.as_ref()?.observed_fpr;
        let Rate(fpr) = filter.expected_fpr.or_else(observed)?;
        let keys = filter.keys.filter(|_| filter.state <= State::Fallback)?;
        Some(Self { keys, bytes: filter.filter_bytes.0, fpr })
    }

    pub(crate) fn bits_per_key(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.keys.max(1) as f64
    }

    /// Returns the filter that a policy would build for the same keys, and whether it is Bloom because they are few.
    fn replaced(&self, policy: Policy, goal: Goal) -> Option<(Self, bool)> {
        let sizing = match goal {
            Goal::Chosen(sizing) => sizing,
            Goal::Rate => Sizing::Rate(FalsePositiveRate::new(self.fpr).ok()?),
            Goal::Bytes => Sizing::BitsPerKey(BitsPerKey::new(self.bits_per_key()).ok()?),
        };
        let configured = match (policy, sizing) {
            (Policy::Bloom, _) => FixedPolicy::bloom(sizing),
            (Policy::Auto, Sizing::BitsPerKey(size)) => RibbonKind::same_rate_as_bloom(size).map(FixedPolicy::from),
            (Policy::Auto | Policy::Ribbon, _) => FixedPolicy::ribbon(sizing),
        };
        // As builders do: a table of too few keys for Ribbon gets Bloom.
        let planned = configured.ok()?.plan(self.keys, None);
        let is_fallback = planned.is_err();
        let bloom = || FixedPolicy::bloom(sizing).ok()?.plan(self.keys, None).ok();
        let plan = planned.ok().or_else(bloom)?;
        Some((Self { bytes: plan.block_bytes + BINDING_BYTES, fpr: plan.expected_fpr, ..*self }, is_fallback))
    }
}

impl Cost {
    /// Returns the cost of the present filters, and those of others. `chosen` is the size or rate that an option names.
    pub(crate) fn of_each(filters: &[TableFilter], chosen: Option<Sizing>) -> Vec<Self> {
        if filters.is_empty() {
            return Vec::new();
        }
        let mut goals = vec![(Policy::Ribbon, Goal::Rate), (Policy::Bloom, Goal::Rate)];
        goals.extend([(Policy::Ribbon, Goal::Bytes), (Policy::Bloom, Goal::Bytes)]);
        goals.extend(chosen.into_iter().flat_map(|sizing| Policy::ALL.map(|policy| (policy, Goal::Chosen(sizing)))));
        let now = Self::of("now".to_owned(), filters);
        let replaced = goals.into_iter().filter_map(|(policy, goal)| now.replaced(filters, policy, goal)).collect();
        [vec![now.clone()], replaced].concat()
    }

    pub(crate) fn of(choice: String, filters: &[TableFilter]) -> Self {
        let bytes = filters.iter().map(|filter| filter.bytes).sum();
        // Filters without keys have a rate of 0 and not NaN.
        let keys = filters.iter().map(|filter| filter.keys).sum::<u64>().max(1) as f64;
        let positives: f64 = filters.iter().map(|filter| filter.fpr * filter.keys as f64).sum();
        let (bits_per_key, mean_fpr) = (Bits(bytes as f64 * 8.0 / keys), Rate(positives / keys));
        Self { choice, filter_bytes: Bytes(bytes), bits_per_key, mean_fpr, ..Self::default() }
    }

    /// Returns the cost of other filters; `None` if all tables have too few keys for them, so that they get Bloom, or
    /// if they cannot be as small.
    fn replaced(&self, filters: &[TableFilter], policy: Policy, goal: Goal) -> Option<Self> {
        let (mut kept_filters, mut small) = (0, 0);
        let mut replaced = |filter: &TableFilter| {
            let other = filter.replaced(policy, goal);
            kept_filters += u64::from(other.is_none());
            small += usize::from(other.is_some_and(|(_, is_fallback)| is_fallback));
            other.map_or(*filter, |(other, _)| other)
        };
        let others: Vec<_> = filters.iter().map(&mut replaced).collect();
        let kept = match goal {
            Goal::Rate => "same rate".to_owned(),
            Goal::Bytes => "same bytes".to_owned(),
            Goal::Chosen(Sizing::Rate(rate)) => format!("rate of {}", brief_percent(rate.get())),
            Goal::Chosen(sizing) => sizing.to_string(),
        };
        let few = match small {
            0 => String::new(),
            small if small == filters.len() => return None,
            small => format!(" (bloom for {})", counted(small as u64, "small table")),
        };
        let cost = Self::of(format!("{}, {kept}{few}", policy.text()), &others);
        // Bloom filters of few keys have a smallest size.
        if matches!(goal, Goal::Bytes) && cost.filter_bytes.0 > self.filter_bytes.0 / 50 * 51 {
            return None;
        }
        let saved_share = Some(Rate(1.0 - cost.filter_bytes.0 as f64 / self.filter_bytes.0.max(1) as f64));
        Some(Self { saved_share, kept_filters, ..cost })
    }
}
