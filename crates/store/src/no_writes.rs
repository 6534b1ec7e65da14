//! In place of writes and their maps, without the feature `maps`: types without values, so that the compiler leaves out
//! what would use them.

use core::convert::Infallible;
use core::marker::PhantomData;

use sstfilter::KeyHash;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Writes(Infallible);

#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteId(Infallible);

#[derive(Debug)]
pub(crate) struct FileWrites(Infallible);

#[derive(Clone, Debug)]
pub(crate) struct KeyWrites<'a>(Infallible, PhantomData<&'a ()>);

#[derive(Debug)]
pub(crate) struct WriteSet<D>(Infallible, PhantomData<D>);

impl KeyWrites<'_> {
    pub(crate) fn may_be_in(&self, _: Writes) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_unknown(&self) -> bool {
        match self.0 {}
    }
}

impl<D> WriteSet<D> {
    pub(crate) fn of(&self, _: KeyHash) -> KeyWrites<'_> {
        match self.0 {}
    }

    pub(crate) fn of_each(&self, _: &[KeyHash]) -> Vec<KeyWrites<'_>> {
        match self.0 {}
    }

    pub(crate) fn covers(&self, _: Writes) -> bool {
        match self.0 {}
    }
}

pub(crate) fn in_maps(file: &FileWrites) -> Option<Writes> {
    match file.0 {}
}
