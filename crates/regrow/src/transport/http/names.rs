//! Names are looked up as the pool does it; a name that is not found is told from a server that is not reached.

use std::error::Error;
use std::fmt;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use tower::Service;

use crate::transport::BoxFuture;

#[derive(Clone)]
pub(super) struct Names(GaiResolver);

/// There is no such name.
#[derive(Debug)]
pub(super) struct UnknownName(std::io::Error);

impl Names {
    pub(super) fn new() -> Names {
        Names(GaiResolver::new())
    }
}

impl Service<Name> for Names {
    type Response = GaiAddrs;
    type Error = UnknownName;
    type Future = BoxFuture<Result<GaiAddrs, UnknownName>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), UnknownName>> {
        self.0.poll_ready(cx).map_err(UnknownName)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = self.0.call(name);
        Box::pin(async move { found.await.map_err(UnknownName) })
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for UnknownName {}
