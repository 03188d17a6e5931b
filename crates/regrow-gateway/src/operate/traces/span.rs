//! The span of one call.

use opentelemetry::trace::{
    Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::Span as SdkSpan;
use regrow_protocol::frame::Frame;
use regrow_protocol::text::escape;

use super::exporter::Exporter;
use crate::operate::trace_context::{TraceContext, TraceParent};
use crate::stats::Ending;

/// Longer names of tools are cut.
const LONGEST_NAME: usize = 100;

pub(super) fn begin(exporter: &Exporter, server: &str, request: &Frame) -> (Frame, OpenSpan) {
    let method = escape(request.method().unwrap_or_default());
    let tool = request.tool().map(|tool| escape(&tool).chars().take(LONGEST_NAME).collect::<String>());
    let name = tool.as_ref().map_or(method.clone(), |tool| format!("{method} {tool}"));
    let mut attributes =
        vec![KeyValue::new("mcp.method.name", method), KeyValue::new("regrow.server", server.to_owned())];
    attributes.extend(tool.map(|tool| KeyValue::new("gen_ai.tool.name", tool)));
    let builder = exporter.tracer.span_builder(name).with_kind(SpanKind::Client).with_attributes(attributes);
    let parent = TraceContext::of(request).map_or_else(Context::new, remote);
    let span = exporter.tracer.build_with_context(builder, &parent);
    let request = ours(span.span_context()).put_into(request);
    (request, OpenSpan { span, has_ended: false })
}

/// The span of the client, as the parent of ours.
fn remote(context: TraceContext) -> Context {
    let TraceParent { trace, parent, flags } = context.parent;
    // What others noted is theirs; what we cannot read is not handed to the collector, but still to the server.
    let state = context.state.and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    let (trace, parent) =
        (TraceId::from_bytes(trace.to_be_bytes()), SpanId::from_bytes(parent.to_be_bytes()));
    let context = SpanContext::new(trace, parent, TraceFlags::new(flags), true, state);
    Context::new().with_remote_span_context(context)
}

/// Our span, as the server shall know it.
fn ours(context: &SpanContext) -> TraceParent {
    TraceParent {
        trace: u128::from_be_bytes(context.trace_id().to_bytes()),
        parent: u64::from_be_bytes(context.span_id().to_bytes()),
        flags: context.trace_flags().to_u8(),
    }
}

/// A span that ends with its call.
pub(super) struct OpenSpan {
    span: SdkSpan,
    has_ended: bool,
}

impl OpenSpan {
    pub(super) fn end(mut self, ending: Ending) {
        self.has_ended = true;
        self.record(ending);
    }

    fn record(&mut self, ending: Ending) {
        self.span.set_attribute(KeyValue::new("regrow.outcome", ending.outcome()));
        self.span.set_attribute(KeyValue::new("regrow.delivery", ending.delivery().name()));
        if ending.outcome() != "answered" {
            self.span.set_attribute(KeyValue::new("error.type", ending.outcome()));
            self.span.set_status(Status::error(""));
        }
        self.span.end();
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if !self.has_ended {
            self.record(Ending::CANCELLED);
        }
    }
}
