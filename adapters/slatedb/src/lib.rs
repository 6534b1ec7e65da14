//! sstfilter in SlateDB.
