//! One span for each call, where the feature `otel` is on and an exporter was given; else calls pass untouched.

#[cfg(feature = "otel")]
mod exporter;
#[cfg(feature = "otel")]
mod span;

use regrow::Reply;
use regrow_protocol::frame::Frame;

#[cfg(feature = "otel")]
pub use exporter::TracesError;

/// Whether and where calls are traced. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    #[cfg(feature = "otel")]
    exporter: Option<exporter::Exporter>,
}

impl Traces {
    /// No call is traced. Whatever clients say of their traces reaches the servers as it was written.
    pub fn off() -> Traces {
        Traces::default()
    }

    /// A request and its reply, as they are to be handed on to this server: the request as a part of the span of this
    /// call, which ends with its reply.
    pub fn trace(&self, server: &str, request: Frame, reply: Box<dyn Reply>) -> (Frame, Box<dyn Reply>) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = &self.exporter {
            return span::begin(exporter, server, request, reply);
        }
        let _ = server; // Only a span names it.
        (request, reply)
    }
}
