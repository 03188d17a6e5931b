//! The span of one call.

use opentelemetry::trace::{
    Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue};
use regrow::{Outcome, Reply};
use regrow_protocol::frame::Frame;
use regrow_protocol::text::escape;

use super::exporter::Exporter;
use crate::operate::trace_context::{TraceContext, TraceParent};
use crate::stats::Ending;

/// Longer names of tools are cut.
const LONGEST_NAME: usize = 100;

pub(super) fn begin(
    exporter: &Exporter,
    server: &str,
    request: Frame,
    reply: Box<dyn Reply>,
) -> (Frame, Box<dyn Reply>) {
    let method = escape(request.method().unwrap_or_default());
    let tool = request.tool().map(|tool| escape(&tool).chars().take(LONGEST_NAME).collect::<String>());
    let name = tool.as_ref().map_or(method.clone(), |tool| format!("{method} {tool}"));
    let mut attributes =
        vec![KeyValue::new("mcp.method.name", method), KeyValue::new("regrow.server", server.to_owned())];
    attributes.extend(tool.map(|tool| KeyValue::new("gen_ai.tool.name", tool)));
    let builder = exporter.tracer.span_builder(name).with_kind(SpanKind::Client).with_attributes(attributes);
    let parent = TraceContext::of(&request).map_or_else(Context::new, remote);
    let span = exporter.tracer.build_with_context(builder, &parent);
    let request = ours(span.span_context()).put_into(&request);
    (request, Box::new(Traced { span, reply: Some(reply) }))
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

/// Ends the span with the call, and tells what became of it.
struct Traced<S: Span> {
    span: S,
    /// Taken when the call ends. Dropped with it still here, the call was cancelled.
    reply: Option<Box<dyn Reply>>,
}

impl<S: Span> Traced<S> {
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

impl<S: Span + Send + 'static> Reply for Traced<S> {
    fn end(mut self: Box<Self>, outcome: Outcome) {
        self.record(Ending::of(&outcome));
        if let Some(reply) = self.reply.take() {
            reply.end(outcome);
        }
    }
}

impl<S: Span> Drop for Traced<S> {
    fn drop(&mut self) {
        if self.reply.is_some() {
            self.record(Ending::CANCELLED);
        }
    }
}
