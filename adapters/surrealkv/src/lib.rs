//! sstfilter in SurrealKV.
