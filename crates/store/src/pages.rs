//! Pages of maps that stay on the store: which ones a lookup needs, and what the engine has read of them.

use core::fmt;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sstfilter::KeyHash;
use sstfilter::internal::locks::lock;
use sstfilter_map::{FileMap, MapAnswer, MapIndex, MapPart, MapRead};

/// A map of files of a view.
#[derive(Clone)]
pub(crate) enum ViewMap {
    InMemory(Arc<FileMap<Bytes>>),
    /// A map that is read by page, and whether a read found damage.
    Paged(Arc<MapIndex>, Arc<AtomicBool>),
}

impl ViewMap {
    pub(crate) const fn in_memory(&self) -> Option<&Arc<FileMap<Bytes>>> {
        if let Self::InMemory(map) = self { Some(map) } else { None }
    }

    pub(crate) fn has_damaged_page(&self) -> bool {
        matches!(self, Self::Paged(_, is_damaged) if is_damaged.load(Ordering::Relaxed))
    }
}

impl Deref for ViewMap {
    type Target = MapIndex;

    fn deref(&self) -> &MapIndex {
        match self {
            Self::InMemory(map) => map.index(),
            Self::Paged(index, _) => index,
        }
    }
}

/// The key of a lookup, and what was read for it.
#[derive(Clone)]
pub(crate) struct Pages(Arc<(KeyHash, Mutex<Vec<Outcome>>)>);

/// A read, which names its map, and its bytes; `None` if it failed or they are damaged. Of several outcomes of a read,
/// the first counts: a lookup does not change its mind.
type Outcome = (MapRead, Option<MapPart<Bytes>>);

impl Pages {
    #[cold]
    pub(crate) fn new(hash: KeyHash) -> Self {
        Self(Arc::new((hash, Mutex::default())))
    }

    /// Calls `visit` with what the map says of the key. Returns the read that it needs before it can say so.
    pub(crate) fn visit(&self, map: &ViewMap, visit: impl FnOnce(MapAnswer<'_>)) -> Option<PageRead> {
        let (hash, outcomes) = &*self.0;
        if let ViewMap::InMemory(map) = map {
            visit(map.candidates(*hash));
            return None;
        }
        let (mut read, outcomes) = (map.read_for(*hash), lock(outcomes));
        loop {
            let Some((_, part)) = outcomes.iter().find(|(other, _)| *other == read) else {
                return Some(PageRead { map: map.clone(), read, pages: self.clone() });
            };
            match part.as_ref().map_or(Ok(MapAnswer::All), |part| map.probe(part, *hash)) {
                Ok(answer) => {
                    visit(answer);
                    return None;
                }
                Err(next) => read = next,
            }
        }
    }
}

/// A read of a page of a map that a lookup needs. Read the bytes, or take them from a cache, and
/// [complete](Self::complete) it. If it is dropped, the lookup still needs it; a lookup that goes on without it uses
/// the filters of the map's files instead.
///
/// It owns everything it needs, and may outlive the lookup and the view.
#[must_use = "the lookup uses filters until this is completed"]
pub struct PageRead {
    map: ViewMap,
    read: MapRead,
    pages: Pages,
}

impl PageRead {
    /// Returns the map, whose id says where it is stored.
    #[must_use]
    pub fn map(&self) -> &MapIndex {
        &self.map
    }

    /// Returns the read, which has the range of the bytes in the map, and is their key in a cache.
    #[must_use]
    pub const fn read(&self) -> MapRead {
        self.read
    }

    /// Takes the bytes, or the error of the read, and verifies them. If they are not those that were written, the
    /// lookup uses the filters of the map's files, and [`needs_map`](crate::FilterView::needs_map) says so. Name the
    /// error type if the compiler cannot infer it: `Ok::<_, std::io::Error>(bytes)`.
    pub fn complete(self, bytes: Result<Bytes, impl fmt::Display>) {
        let part = bytes.ok().map(|bytes| self.map.open(&self.read, bytes));
        if let (ViewMap::Paged(_, is_damaged), Some(Err(_))) = (&self.map, &part) {
            is_damaged.store(true, Ordering::Relaxed);
        }
        lock(&self.pages.0.1).push((self.read, part.and_then(Result::ok)));
    }
}

impl fmt::Debug for PageRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PageRead").field(&self.read).finish()
    }
}
