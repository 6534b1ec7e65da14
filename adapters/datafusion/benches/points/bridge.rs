//! DataFusion 55 has `object_store` 0.13, and the S3 server's client is of 0.14. This passes requests from one to the
//! other, one for one, and only those that reading takes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::object_store as old;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStore;

/// A store of version 0.14 as one of 0.13.
#[derive(Debug)]
pub(crate) struct Bridge(pub(crate) Arc<dyn ObjectStore>);

impl fmt::Display for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn error(source: object_store::Error) -> old::Error {
    old::Error::Generic { store: "bridge", source: source.into() }
}

fn unsupported<T>(operation: &str) -> old::Result<T> {
    let (operation, implementer) = (operation.to_owned(), "Bridge".to_owned());
    Err(old::Error::NotImplemented { operation, implementer })
}

fn new_path(path: &old::path::Path) -> object_store::path::Path {
    object_store::path::Path::from(path.as_ref())
}

fn old_meta(meta: object_store::ObjectMeta) -> old::ObjectMeta {
    let object_store::ObjectMeta { location, last_modified, size, e_tag, version } = meta;
    old::ObjectMeta { location: old::path::Path::from(location.as_ref()), last_modified, size, e_tag, version }
}

#[async_trait]
impl old::ObjectStore for Bridge {
    async fn get_opts(&self, location: &old::path::Path, options: old::GetOptions) -> old::Result<old::GetResult> {
        let range = options.range.map(|range| match range {
            old::GetRange::Bounded(range) => object_store::GetRange::Bounded(range),
            old::GetRange::Offset(offset) => object_store::GetRange::Offset(offset),
            old::GetRange::Suffix(bytes) => object_store::GetRange::Suffix(bytes),
        });
        let old::GetOptions { head, if_match, .. } = options;
        let options = object_store::GetOptions { range, head, if_match, ..object_store::GetOptions::default() };
        let got = self.0.get_opts(&new_path(location), options).await.map_err(error)?;
        let (meta, range) = (old_meta(got.meta.clone()), got.range.clone());
        let payload = old::GetResultPayload::Stream(got.into_stream().map_err(error).boxed());
        Ok(old::GetResult { payload, meta, range, attributes: old::Attributes::default() })
    }

    async fn get_ranges(&self, location: &old::path::Path, ranges: &[Range<u64>]) -> old::Result<Vec<Bytes>> {
        self.0.get_ranges(&new_path(location), ranges).await.map_err(error)
    }

    fn list(&self, prefix: Option<&old::path::Path>) -> BoxStream<'static, old::Result<old::ObjectMeta>> {
        self.0.list(prefix.map(new_path).as_ref()).map_ok(old_meta).map_err(error).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&old::path::Path>) -> old::Result<old::ListResult> {
        unsupported("list_with_delimiter")
    }

    async fn put_opts(
        &self,
        _: &old::path::Path,
        _: old::PutPayload,
        _: old::PutOptions,
    ) -> old::Result<old::PutResult> {
        unsupported("put")
    }

    async fn put_multipart_opts(
        &self,
        _: &old::path::Path,
        _: old::PutMultipartOptions,
    ) -> old::Result<Box<dyn old::MultipartUpload>> {
        unsupported("put_multipart")
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, old::Result<old::path::Path>>,
    ) -> BoxStream<'static, old::Result<old::path::Path>> {
        locations.map(|_| unsupported("delete")).boxed()
    }

    async fn copy_opts(&self, _: &old::path::Path, _: &old::path::Path, _: old::CopyOptions) -> old::Result<()> {
        unsupported("copy")
    }
}
