//! One span for each call, where the feature `otel` is on and an exporter was given; else calls pass untouched.

#[cfg(feature = "otel")]
mod exporter;
#[cfg(feature = "otel")]
mod span;

use regrow_protocol::frame::Frame;

use crate::stats::Ending;

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

    /// Begins the span of a call to this server. The server gets the request with this span as its parent.
    pub fn begin(&self, server: &str, request: &mut Frame) -> CallSpan {
        #[cfg(feature = "otel")]
        if let Some(exporter) = &self.exporter {
            let (traced, span) = span::begin(exporter, server, request);
            *request = traced;
            return CallSpan { span: Some(span) };
        }
        let _ = (server, request); // Only a span needs them.
        CallSpan::default()
    }
}

/// The span of a call; empty where calls are not traced. Dropped before [`CallSpan::end`], the call was cancelled.
#[derive(Default)]
pub struct CallSpan {
    #[cfg(feature = "otel")]
    span: Option<span::OpenSpan>,
}

impl CallSpan {
    /// The call ended like this.
    pub fn end(self, ending: Ending) {
        #[cfg(feature = "otel")]
        if let Some(span) = self.span {
            span.end(ending);
        }
        let _ = ending; // Only a span records it.
    }
}
