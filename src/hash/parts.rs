//! What of a key goes into filters: the whole key, parts of it, or both, each in a domain of its own.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{HashIdentity, KeyExtractor, KeyHash, KeyHasher, mix64};

/// What a hash stands for, where one filter holds several kinds of things: a name, reduced to 64 bits.
///
/// A filter of keys and of prefixes, or of the tags and of the classes of a document, must not take a string of one
/// kind for the same string of another. [`KeyHash::in_domain`] makes unrelated hashes of them. Whole keys have no
/// domain; a part has the domain of its extractor's name.
///
/// ```
/// use sstfilter::{Domain, KeyHasher};
///
/// let hash = KeyHasher::default().hash(b"menu");
/// let [tag, class] = [Domain::new("tag"), Domain::new("class")];
/// assert_ne!(hash.in_domain(tag), hash.in_domain(class));
/// assert_eq!(hash.in_domain(tag), hash.in_domain(Domain::new("tag")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    tag: u64,
}

/// Seeds the hashes of domain names: the ASCII bytes `sstfdoma`, read as a big-endian number. A seed of its own, so
/// that no key's hash is a tag.
const DOMAIN_SEED: u64 = 0x7373_7466_646f_6d61;

impl Domain {
    /// The domain of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { tag: xxh3_64_with_seed(name.as_bytes(), DOMAIN_SEED) }
    }

    /// The 64 bits that stand for the name: blocks record them for each extractor whose parts they hold.
    #[must_use]
    pub const fn tag(self) -> u64 {
        self.tag
    }

    /// The domain of a tag that a block records.
    pub(crate) const fn from_tag(tag: u64) -> Self {
        Self { tag }
    }
}

impl KeyHash {
    /// The hash that stands for the same bytes in `domain`: in each domain another, and unrelated to this one.
    ///
    /// Distinct hashes stay distinct in a domain. Entering two domains one after the other is possible, and their order
    /// matters.
    #[must_use]
    pub const fn in_domain(self, domain: Domain) -> Self {
        // Mixed, because hashes that differ by one constant alone are related: fuse filters would put them side by
        // side.
        Self(mix64(self.0 ^ domain.tag))
    }
}

/// What of each key goes into a filter: the whole key, and parts of it by any number of extractors.
///
/// A filter of whole keys serves point lookups; one of parts serves scans of prefixes. One filter can hold both, for
/// the bits of both: each key adds one entry for itself, and one for each part that the key before it does not have.
/// Parts are hashed in the [`Domain`] of their extractor's name.
///
/// Give them to the store's filters ([`Filters::with_key_parts`](crate::Filters::with_key_parts)), and add keys: the
/// builder extracts and hashes their parts. The block records which parts it holds, so an extractor can be added to a
/// store, changed under a new name, or dropped at any time. A filter without the part that a reader probes for answers
/// "may be present".
///
/// ```
/// use std::sync::Arc;
///
/// use sstfilter::{FileId, Filters, FixedPrefix, KeyParts};
///
/// // A store before it had an extractor, and after.
/// let old = Filters::default();
/// let new = old.clone().with_key_parts(KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4))));
///
/// let filter_of = |written_by: &Filters| {
///     let file = FileId::random();
///     let mut builder = written_by.builder(file);
///     for key in [&b"t041:user:1"[..], b"t041:user:2", b"t042:user:1"] {
///         builder.add_key(key);
///     }
///     new.load(builder.finish().block.expect("five entries fit"), file)
/// };
/// let (of_old, of_new) = (filter_of(&old), filter_of(&new));
/// assert_eq!(of_new.block().expect("sound").info().keys, 5, "three keys, two parts");
///
/// assert!(!of_new.probe(b"t041:user:2").is_absent());
/// assert!(of_new.probe_prefix(b"t043:").is_absent());
/// assert!(!of_old.probe_prefix(b"t043:").is_absent(), "it has no such parts: the file must be read");
/// assert!(!of_new.probe_prefix(b"t04").is_absent(), "no part follows from it, so the filter cannot tell");
/// ```
#[derive(Clone, Debug)]
pub struct KeyParts {
    whole_keys: bool,
    /// Shared by all tables that are open with them.
    extractors: Arc<[DomainExtractor]>,
}

/// An extractor, and the domain of its parts.
#[derive(Clone, Debug)]
struct DomainExtractor {
    extractor: Arc<dyn KeyExtractor>,
    domain: Domain,
}

impl DomainExtractor {
    fn new(extractor: Arc<dyn KeyExtractor>) -> Self {
        Self { domain: Domain::new(extractor.name()), extractor }
    }

    /// The hash of a key's part.
    fn hash(&self, hasher: &KeyHasher, key: &[u8]) -> Option<KeyHash> {
        self.extractor.extract(key).map(|part| self.hash_of_part(hasher, &part))
    }

    /// The hash of the part that all keys with this prefix have.
    fn prefix_hash(&self, hasher: &KeyHasher, prefix: &[u8]) -> Option<KeyHash> {
        let part = self.extractor.extract_prefix(prefix)?;
        // As promised of any key that begins with the prefix, and here the one that costs nothing to look at.
        let is_its_own = self.extractor.extract(prefix).as_ref() == Some(&part);
        is_its_own.then(|| self.hash_of_part(hasher, &part))
    }

    fn hash_of_part(&self, hasher: &KeyHasher, part: &[u8]) -> KeyHash {
        hasher.hash(part).in_domain(self.domain)
    }
}

impl fmt::Display for KeyParts {
    /// `whole keys, 'fixed-prefix:4'`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.whole_keys.then(|| "whole keys".to_owned());
        let names = self.extractors().map(|extractor| format!("'{}'", extractor.name()));
        let parts: Vec<_> = whole.into_iter().chain(names).collect();
        f.write_str(&if parts.is_empty() { "none".to_owned() } else { parts.join(", ") })
    }
}

impl Default for KeyParts {
    /// Whole keys alone.
    fn default() -> Self {
        Self::whole_keys()
    }
}

impl KeyParts {
    /// Most extractors whose parts a filter can hold: blocks and tables say which, in a byte and in a bitmap.
    pub const MAX_EXTRACTORS: usize = 63;

    /// Whole keys.
    #[must_use]
    pub fn whole_keys() -> Self {
        Self { whole_keys: true, extractors: Arc::new([]) }
    }

    /// The parts that `extractor` gives, without whole keys.
    #[must_use]
    pub fn extracted(extractor: Arc<dyn KeyExtractor>) -> Self {
        Self { whole_keys: false, extractors: Arc::new([DomainExtractor::new(extractor)]) }
    }

    /// Adds the parts that `extractor` gives. An extractor of the same name that is there already is replaced, because
    /// one name means one function.
    #[must_use]
    pub fn with_extractor(self, extractor: Arc<dyn KeyExtractor>) -> Self {
        let added = DomainExtractor::new(extractor);
        let mut extractors = self.extractors.to_vec();
        match extractors.iter_mut().find(|other| other.extractor.name() == added.extractor.name()) {
            Some(other) => *other = added,
            None => extractors.push(added),
        }
        Self { extractors: extractors.into(), ..self }
    }

    /// Whether whole keys go into the filter.
    #[must_use]
    pub const fn has_whole_keys(&self) -> bool {
        self.whole_keys
    }

    /// The extractors, in the order in which they were added.
    #[must_use]
    pub fn extractors(&self) -> impl ExactSizeIterator<Item = &Arc<dyn KeyExtractor>> {
        self.extractors.iter().map(|part| &part.extractor)
    }

    /// A prefix, hashed for filters that hold these parts: once, for the filters of all files.
    #[must_use]
    pub fn prefix<'a>(&self, hasher: &KeyHasher, prefix: &'a [u8]) -> PreparedPrefix<'a> {
        let hash = |part: &DomainExtractor| Some((part.domain, part.prefix_hash(hasher, prefix)?));
        let hashes = self.extractors.iter().filter_map(hash).collect();
        PreparedPrefix { prefix, identity: hasher.identity(), hashes }
    }

    /// A key, hashed like a prefix: to ask filters that hold its parts, and not whole keys, whether their file may have
    /// it. Where a filter has whole keys, probe for the key's hash, which tells more. Pass the bytes that were written:
    /// a filter cut by key range finds the key's partition by them, whatever the extractor makes of them.
    #[must_use]
    pub fn key<'a>(&self, hasher: &KeyHasher, key: &'a [u8]) -> PreparedPrefix<'a> {
        let hash = |part: &DomainExtractor| Some((part.domain, part.hash(hasher, key)?));
        let hashes = self.extractors.iter().filter_map(hash).collect();
        PreparedPrefix { prefix: key, identity: hasher.identity(), hashes }
    }

    /// The hashes that stand for `key` in a filter that holds these parts, each with its domain: its own, which has
    /// none, then those of its parts. A key outside the domain of an extractor has no part by it.
    pub(crate) fn hashes<'a>(
        &'a self,
        hasher: &'a KeyHasher,
        key: &'a [u8],
    ) -> impl Iterator<Item = (Option<Domain>, KeyHash)> + 'a {
        let whole = self.whole_keys.then(|| (None, hasher.hash(key)));
        let of_part = move |part: &DomainExtractor| Some((Some(part.domain), part.hash(hasher, key)?));
        whole.into_iter().chain(self.extractors.iter().filter_map(of_part))
    }

    /// Without the parts of these extractors, and of those that a filter cannot name: names have 1 to 255 bytes, and
    /// there are [`MAX_EXTRACTORS`](Self::MAX_EXTRACTORS) at most.
    #[must_use]
    pub fn without(&self, unstable: &[String]) -> Self {
        let is_held = |part: &&DomainExtractor| {
            let name = part.extractor.name();
            (1..=255).contains(&name.len()) && !unstable.iter().any(|other| other == name)
        };
        let extractors = self.extractors.iter().filter(is_held).take(Self::MAX_EXTRACTORS).cloned().collect();
        Self { whole_keys: self.whole_keys, extractors }
    }

    /// Those whose domain `keeps` approves of; `None` stands for whole keys.
    #[must_use]
    pub fn only(&self, keeps: impl Fn(Option<Domain>) -> bool) -> Self {
        let extractors = self.extractors.iter().filter(|part| keeps(Some(part.domain))).cloned().collect();
        Self { whole_keys: self.whole_keys && keeps(None), extractors }
    }

    /// Whether nothing of a key is in them.
    pub(crate) fn is_empty(&self) -> bool {
        !self.whole_keys && self.extractors.is_empty()
    }

    /// Whether they are whole keys, and nothing else.
    pub(crate) fn are_whole_keys(&self) -> bool {
        self.whole_keys && self.extractors.is_empty()
    }

    /// The domains of the extractors.
    pub(crate) fn domains(&self) -> impl Iterator<Item = Domain> + '_ {
        self.extractors.iter().map(|part| part.domain)
    }

    /// Whether the other is known to give the same parts: equal names do not prove it.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let address = |part: &DomainExtractor| Arc::as_ptr(&part.extractor).cast::<()>();
        self.whole_keys == other.whole_keys
            && self.extractors.iter().map(address).eq(other.extractors.iter().map(address))
    }

    /// The hash by which a filter has the part of `key` that the extractor at `position` makes; `None` if it makes
    /// none. Probe with it only filters that hold such parts: others are negative for it, whatever keys they hold
    /// ([`FilterBlock::may_contain_prefix`](crate::FilterBlock::may_contain_prefix) looks).
    #[inline]
    #[must_use]
    pub fn part_hash(&self, hasher: &KeyHasher, position: usize, key: &[u8]) -> Option<KeyHash> {
        self.extractors.get(position)?.hash(hasher, key)
    }

    /// The hash that the part of every key with this prefix has, by the extractor at `position`; `None` if these keys
    /// may have other parts, or none. For filters that hold such parts, as that of [`part_hash`](Self::part_hash).
    #[must_use]
    pub fn prefix_hash(&self, hasher: &KeyHasher, position: usize, prefix: &[u8]) -> Option<KeyHash> {
        self.extractors.get(position)?.prefix_hash(hasher, prefix)
    }
}

/// A prefix of keys with the hashes of its parts, to be probed for in the filters of many files: see
/// [`KeyParts::prefix`]; or one key with those of its own, see [`KeyParts::key`].
#[derive(Clone, Debug)]
pub struct PreparedPrefix<'a> {
    prefix: &'a [u8],
    identity: HashIdentity,
    hashes: Vec<(Domain, KeyHash)>,
}

impl<'a> PreparedPrefix<'a> {
    /// The prefix itself.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.prefix
    }

    /// The hash function. A filter of another one answers "may be present".
    #[must_use]
    pub const fn hash_identity(&self) -> HashIdentity {
        self.identity
    }

    /// The hash that every key that is looked for has in a domain, for each extractor that has one part for all these
    /// keys.
    pub fn hashes(&self) -> impl Iterator<Item = (Domain, KeyHash)> + '_ {
        self.hashes.iter().copied()
    }
}

/// The hashes of keys that come in order.
#[derive(Debug)]
pub struct OrderedKeyHashes {
    hasher: KeyHasher,
    parts: KeyParts,
    /// What was seen of each extractor.
    seen: Vec<Seen>,
    all: Vec<KeyHash>,
    new: Vec<KeyHash>,
    has_keys: bool,
    has_bare_hashes: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    last: Option<KeyHash>,
    prefixes: PrefixWatch,
}

/// Whether an extractor keeps its promise of prefixes, for the keys that a builder is given: what
/// [`check_prefix_stability`](crate::check_prefix_stability) checks for one key, in a time that a builder has. A filter
/// of an extractor that broke its promise must not be used for prefixes.
///
/// It takes samples: all prefixes of the first eight keys, up to 64 bytes, and one prefix of each key after them. "Not
/// unstable" is no proof.
///
/// ```
/// use sstfilter::{FixedPrefix, PrefixWatch};
///
/// let mut watch = PrefixWatch::default();
/// for key in [&b"t042:user:7"[..], b"t042:user:8", b"t043:user:1"] {
///     watch.look_at(&FixedPrefix::new(4), key);
/// }
/// assert!(!watch.is_unstable());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefixWatch {
    /// How many keys came.
    keys: usize,
    /// A prefix of some key did not have the key's part.
    is_unstable: bool,
}

impl PrefixWatch {
    /// Looks at one prefix of a key, or at several.
    pub fn look_at(&mut self, extractor: &dyn KeyExtractor, key: &[u8]) {
        let is_stable = watched_lengths(self.keys, key.len()).all(|length| {
            let part = key.get(..length).and_then(|prefix| extractor.extract_prefix(prefix));
            part.is_none_or(|part| extractor.extract(key) == Some(part))
        });
        self.is_unstable |= !is_stable;
        self.keys += 1;
    }

    /// Whether the extractor has broken the promise of [`KeyExtractor::extract_prefix`].
    #[must_use]
    pub fn is_unstable(self) -> bool {
        self.is_unstable
    }
}

/// This many keys of a table, and this many bytes of each, are looked at in all their prefixes; of later keys, one
/// prefix each. All prefixes of all keys would take longer than the hashing.
const WATCHED_KEYS: usize = 8;
const WATCHED_BYTES: usize = 64;

/// The hashes of one key.
#[derive(Clone, Copy, Debug)]
pub struct HashesOfKey<'a> {
    /// All that readers may probe for: a filter that holds the key has all of them.
    pub all: &'a [KeyHash],
    /// Those that the keys before it have not brought already.
    pub new: &'a [KeyHash],
}

impl OrderedKeyHashes {
    /// Of keys that come in order.
    #[must_use]
    pub fn new(hasher: KeyHasher, parts: KeyParts) -> Self {
        let seen = vec![Seen::default(); parts.extractors.len()];
        Self { hasher, parts, seen, all: Vec::new(), new: Vec::new(), has_keys: false, has_bare_hashes: false }
    }

    /// The hashes of `key`, which comes after all keys before. Neighbours share parts, and a part that was added need
    /// not be buffered again.
    pub fn of(&mut self, key: &[u8]) -> HashesOfKey<'_> {
        self.has_keys = true;
        self.all.clear();
        self.new.clear();
        if self.parts.whole_keys {
            let hash = self.hasher.hash(key);
            self.all.push(hash);
            self.new.push(hash);
        }
        for (part, seen) in self.parts.extractors.iter().zip(&mut self.seen) {
            seen.prefixes.look_at(part.extractor.as_ref(), key);
            let Some(hash) = part.hash(&self.hasher, key) else { continue };
            self.all.push(hash);
            if seen.last.replace(hash) != Some(hash) {
                self.new.push(hash);
            }
        }
        HashesOfKey { all: &self.all, new: &self.new }
    }

    /// Names of the extractors that have broken the promise of [`KeyExtractor::extract_prefix`].
    #[must_use]
    pub fn unstable_extractors(&self) -> Vec<String> {
        let unstable = self.parts.extractors.iter().zip(&self.seen).filter(|(_, seen)| seen.prefixes.is_unstable());
        unstable.map(|(part, _)| part.extractor.name().to_owned()).collect()
    }

    /// Hashes of whole keys were added without their keys, so that nobody has extracted their parts.
    pub fn note_bare_hashes(&mut self) {
        self.has_bare_hashes = true;
    }

    /// The parts by which a filter holds every key that was added; `None` if there is none.
    pub fn held(&self) -> Option<KeyParts> {
        match (self.has_keys, self.has_bare_hashes) {
            (_, false) => {
                let held = self.parts.without(&self.unstable_extractors());
                (!held.is_empty()).then_some(held)
            }
            (false, true) => Some(KeyParts::whole_keys()),
            (true, true) => self.parts.whole_keys.then(KeyParts::whole_keys),
        }
    }
}

/// Which prefixes of a key are looked at: their lengths take turns.
fn watched_lengths(keys_before: usize, key_bytes: usize) -> RangeInclusive<usize> {
    if keys_before < WATCHED_KEYS {
        return 0..=key_bytes.min(WATCHED_BYTES);
    }
    let length = keys_before % (key_bytes + 1);
    length..=length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{DelimitedPrefix, FixedPrefix};

    fn three_parts() -> KeyParts {
        let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(2)));
        parts.with_extractor(Arc::new(DelimitedPrefix::new(b':')))
    }

    #[test]
    fn equal_bytes_have_unrelated_hashes_in_two_domains() {
        let domains = ["", "a", "fixed-prefix:4", "fixed-prefix:8"].map(Domain::new);
        let hash = |key: u64| KeyHasher::default().hash(&key.to_le_bytes());
        for (at, one) in domains.iter().enumerate() {
            for other in &domains[at + 1..] {
                let differing =
                    |key| (hash(key).in_domain(*one).get() ^ hash(key).in_domain(*other).get()).count_ones();
                let flipped: u32 = (0..1_000).map(differing).sum();
                assert!((31_000..33_000).contains(&flipped), "{flipped} of 64,000 bits");
            }
            let flipped: u32 =
                (0..1_000).map(|key| (hash(key).get() ^ hash(key).in_domain(*one).get()).count_ones()).sum();
            assert!((31_000..33_000).contains(&flipped), "{flipped} of 64,000 bits differ from those of whole keys");
        }
    }

    #[test]
    fn all_prefixes_of_the_first_keys_are_looked_at_and_those_of_later_ones_in_turn_up_to_the_whole_key() {
        for key_bytes in [0, 1, 5, 64, 100] {
            let first = (0..WATCHED_KEYS).map(|keys| watched_lengths(keys, key_bytes));
            assert!(first.into_iter().all(|lengths| lengths == (0..=key_bytes.min(WATCHED_BYTES))));
            let later = (WATCHED_KEYS..=WATCHED_KEYS + key_bytes).map(|keys| watched_lengths(keys, key_bytes));
            let mut later: Vec<_> = later.map(RangeInclusive::into_inner).collect();
            later.sort_unstable();
            assert_eq!(later, (0..=key_bytes).map(|length| (length, length)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_key_has_its_own_hash_and_one_for_each_part() {
        let (hasher, parts) = (KeyHasher::default(), three_parts());
        let hashes = |key: &[u8]| parts.hashes(&hasher, key).map(|(_, hash)| hash).collect::<Vec<_>>();
        let [fixed, delimited] = ["fixed-prefix:2", "prefix-to-byte:0x3a"].map(Domain::new);
        assert_eq!(
            hashes(b"ab:c"),
            [hasher.hash(b"ab:c"), hasher.hash(b"ab").in_domain(fixed), hasher.hash(b"ab:").in_domain(delimited)]
        );
        assert_eq!(hashes(b"a"), [hasher.hash(b"a")], "outside both domains");
        let in_domains = parts.hashes(&hasher, b"ab:c").map(|(domain, _)| domain);
        assert!(in_domains.eq([None, Some(fixed), Some(delimited)]));
    }

    #[test]
    fn a_prefix_has_the_hashes_of_the_parts_that_follow_from_it() {
        let (hasher, parts) = (KeyHasher::default(), three_parts());
        let hashes = |prefix: &[u8]| parts.prefix(&hasher, prefix).hashes().collect::<Vec<_>>();
        assert_eq!(hashes(b"a"), []);
        assert_eq!(hashes(b"ab").len(), 1);
        let of_key = parts.hashes(&hasher, b"ab:zz").filter_map(|(domain, hash)| Some((domain?, hash)));
        assert_eq!(hashes(b"ab:"), of_key.collect::<Vec<_>>());
    }

    #[test]
    fn one_name_is_one_extractor_and_the_last_one_counts() {
        let parts = three_parts().with_extractor(Arc::new(FixedPrefix::new(2)));
        let names: Vec<&str> = parts.extractors().map(|extractor| extractor.name()).collect();
        assert_eq!(names, ["fixed-prefix:2", "prefix-to-byte:0x3a"]);
        assert!(parts.has_whole_keys() && !KeyParts::extracted(Arc::new(FixedPrefix::new(2))).has_whole_keys());
        assert!(parts.is_same(&parts.clone()) && !parts.is_same(&three_parts()));
    }

    #[test]
    fn parts_that_neighbours_share_are_new_once() {
        let mut ordered = OrderedKeyHashes::new(KeyHasher::default(), three_parts());
        let mut counts = |key: &[u8]| (ordered.of(key).all.len(), ordered.of(b"").new.len(), ordered.of(key).new.len());
        assert_eq!(counts(b"ab:1"), (3, 1, 1), "all parts are those of the key before: itself");
        let mut ordered = OrderedKeyHashes::new(KeyHasher::default(), three_parts());
        let new = [&b"ab:1"[..], b"ab:2", b"abc", b"b", b"bc:", b"bc:x:"].map(|key| ordered.of(key).new.to_vec());
        assert_eq!(new.each_ref().map(Vec::len), [3, 1, 1, 1, 3, 1]);
    }
}
