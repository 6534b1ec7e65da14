//! What maps of files say about keys. A file that maps cover is excluded by any map that is sound, known and
//! uncontradicted there, and does not name it. If all maps of a file are damaged there, or do not know, the file may
//! have the key.

use std::collections::BTreeMap;

use sstfilter::{FileId, HashIdentity};

use super::batch::{KeyBatch, Positions, all_of};
use crate::file::blocks::hasher_of;
use crate::file::context::Context;
use crate::file::map::{Answer, OpenMap};
use crate::file::problem::{State, in_options};
use crate::words::units::counted;

/// What all maps that cover a file say about it.
pub(crate) struct Said {
    /// The keys that the file may have.
    pub(crate) maybe: Positions,
    /// Those of them of which no map knows whether the file has them.
    pub(crate) unknown: Positions,
    /// The rate at which the file is named for absent keys.
    pub(crate) expected_fpr: f64,
}

/// The answers of maps for the keys of a batch.
#[derive(Default)]
pub(crate) struct Lookup<'m> {
    maps: Vec<MapAnswers<'m>>,
    /// Errors about files that maps contradict each other about, by fingerprint.
    contradictions: BTreeMap<u64, String>,
    all: Positions,
    /// What is wrong with the maps, and their state.
    pub(crate) problems: Vec<(State, String)>,
}

struct MapAnswers<'m> {
    map: &'m OpenMap,
    /// The keys for which the map names each file, by the file's local id.
    named: Vec<Positions>,
    /// The keys that the map does not know.
    unknown: Positions,
}

impl<'m> Lookup<'m> {
    pub(crate) fn of(maps: &'m [OpenMap], keys: &KeyBatch<'_>, context: &Context) -> anyhow::Result<Self> {
        let contradictions = OpenMap::contradictions(maps.iter());
        let mut lookup = Self { all: all_of(keys.keys.len()), contradictions, ..Self::default() };
        let damaged = lookup.contradictions.values().map(|error| (State::Damaged, error.clone()));
        lookup.problems.extend(damaged);
        let mut sorted = None;
        for map in maps {
            lookup.add(map, keys, context, &mut sorted)?;
        }
        Ok(lookup)
    }

    /// Looks up all keys in a map. `sorted` has them in the order of a hash: almost every page is then read once.
    fn add(
        &mut self,
        map: &'m OpenMap,
        keys: &KeyBatch<'_>,
        context: &Context,
        sorted: &mut Option<(HashIdentity, Vec<u32>)>,
    ) -> anyhow::Result<()> {
        let name = map.name();
        let hasher = match hasher_of(map.index.hash_identity(), context.secret.as_ref()) {
            Ok(_) if !map.index.writes().is_empty() => {
                let problem = format!("{name}: expected a map of files, got one of writes");
                self.problems.push((State::Unusable, problem));
                return Ok(());
            }
            Ok(hasher) => hasher,
            Err(problem) => {
                self.problems.push((State::Unusable, format!("{name}: {}", in_options(&problem))));
                return Ok(());
            }
        };
        let hashes = keys.hashes(&hasher);
        if sorted.as_ref().is_none_or(|(hash, _)| *hash != hasher.identity()) {
            let mut positions: Vec<_> = all_of(keys.keys.len()).iter().collect();
            positions.sort_unstable_by_key(|&position| hashes[position as usize].get());
            *sorted = Some((hasher.identity(), positions));
        }
        let mut answers =
            MapAnswers { map, named: vec![Positions::new(); map.index.files().len()], unknown: Positions::new() };
        let (mut damaged, mut unknown) = (0, 0);
        let positions = sorted.as_ref().map_or(&[][..], |(_, positions)| positions);
        map.look_up(
            positions,
            |&position| hashes[position as usize],
            |&position, answer| {
                damaged += u64::from(matches!(answer, Answer::Damaged));
                unknown += u64::from(matches!(answer, Answer::Unknown));
                match answer {
                    Answer::Only(ids) => ids.iter().for_each(|id| _ = answers.named[id.index()].insert(position)),
                    Answer::Unknown | Answer::Damaged => _ = answers.unknown.insert(position),
                }
            },
        )?;
        for (state, count, why) in [
            (State::Damaged, damaged, "the map is damaged there"),
            (State::NotChecked, unknown, "the map does not know the page"),
        ] {
            if count > 0 {
                let (keys, files) = (counted(count, "key"), "so all of its files may have them");
                self.problems.push((state, format!("{name}: {keys}: {why}, {files} unless another map judges them")));
            }
        }
        self.maps.push(answers);
        Ok(())
    }

    /// Returns the number of maps that can be used.
    pub(crate) fn len(&self) -> usize {
        self.maps.len()
    }

    /// Returns the files that maps cover, each once.
    pub(crate) fn files(&self) -> Vec<FileId> {
        OpenMap::covered(self.maps.iter().map(|answers| answers.map))
    }

    /// Returns what the maps say about a file; `None` if no map covers it.
    pub(crate) fn says(&self, file: FileId) -> Option<Said> {
        let mut said: Option<Said> = None;
        for answers in &self.maps {
            let index = &answers.map.index;
            let Some(named) = index.local_id(file).and_then(|id| answers.named.get(id.index())) else { continue };
            let (unknown, maybe) = (answers.unknown.clone(), named | &answers.unknown);
            let expected_fpr = index.expected_false_candidates() / index.files().len() as f64;
            said = Some(match said {
                None => Said { maybe, unknown, expected_fpr },
                Some(said) => Said {
                    maybe: said.maybe & maybe,
                    unknown: said.unknown & unknown,
                    expected_fpr: said.expected_fpr.min(expected_fpr),
                },
            });
        }
        let is_contradicted = self.contradictions.contains_key(&file.fingerprint());
        if is_contradicted {
            said = said.map(|said| Said { maybe: self.all.clone(), unknown: self.all.clone(), ..said });
        }
        said
    }
}
