//! Whether a call's place is free when its client gets the answer. Over a connection nobody could look in that very moment.

use std::sync::OnceLock;
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use regrow::client::{ClientSide, ResponseTo};
use regrow::transport::http::MirroredArguments;
use regrow::{Inbox, Outcome, Reply};
use regrow_protocol::frame::{Frame, RawId};
use tokio::time::Instant;

use super::memory::OutgoingLine;
use super::modern_endpoint::{ModernCallGuard, ModernEndpoint};
use super::replies::{ResponsePath, SessionInput};
use super::reply_stream::ReplyStream;
use super::session::{Identity, Session};
use super::*;
use crate::admit::{AdmitError, ClientHandle, ServerScope};

struct Nobody;

impl Admit for Nobody {
    fn admit(
        &self,
        _: &ServerScope,
        _: Principal,
        _: Arc<dyn Inbox>,
    ) -> Result<Arc<dyn ClientHandle>, AdmitError> {
        Err(AdmitError::Full)
    }

    fn mirrored(&self, _: &ServerScope, _: &str) -> Option<MirroredArguments> {
        None
    }
}

/// A face whose clients may have one call at a time.
fn face() -> Arc<Face> {
    let limits = ClientLimits { calls_per_session: 1, ..ClientLimits::default() };
    let shares = Arc::default();
    let face_stats = FaceStats::new(&limits, &shares);
    Face::new(Arc::new(Nobody), Audit::off(), ErrorStyle::default(), limits, shares, face_stats)
}

/// A client that waits for its answer, and looks for a place when it comes.
struct Waiting<F> {
    finds_place: F,
    found: OnceLock<bool>,
}

impl<F: Fn() -> bool + Send + Sync + 'static> Wake for Waiting<F> {
    fn wake(self: Arc<Self>) {
        self.found.get_or_init(&self.finds_place);
    }
}

/// Ends a call while its client waits, and says whether that finds a place for the next one.
fn finds_place_when_told(
    stream: &ReplyStream,
    finds_place: impl Fn() -> bool + Send + Sync + 'static,
    end: impl FnOnce(),
) -> bool {
    let waiting = Arc::new(Waiting { finds_place, found: OnceLock::new() });
    let waker = Waker::from(waiting.clone());
    assert!(stream.poll_first(&mut Context::from_waker(&waker)).is_pending());
    end();
    *waiting.found.get().expect("the client is told")
}

fn request() -> Frame {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
    Frame::parse(text.into()).unwrap()
}

#[test]
fn a_legacy_client_may_call_again_as_soon_as_it_has_its_answer() {
    let face = face();
    let identity = Identity {
        id: "one".into(),
        scope: ServerScope::All,
        principal: Principal::LocalUser,
        is_older: false,
    };
    let counted = face.face_stats.open(Principal::LocalUser).unwrap();
    let session = Session::new(&face, identity, counted, std::sync::Weak::new(), Instant::now());
    let begin = |stream: &Arc<ReplyStream>| {
        let to = ResponseTo::Alone(ResponsePath::Whole(stream.clone()));
        let input = SessionInput { face: &face, session: &session, permit: None };
        input.begin(&request(), &RawId::from(1), to)
    };
    let ends: [fn(Box<dyn Reply>); 2] = [|reply| reply.end(Outcome::Refused), |reply| drop(reply)];
    for end in ends {
        let stream = session.open_stream(Instant::now());
        let reply = begin(&stream).expect("it is the first");
        assert!(begin(&session.open_stream(Instant::now())).is_none(), "one at a time");
        let (next, session) = (session.open_stream(Instant::now()), session.clone());
        assert!(finds_place_when_told(&stream, move || session.begin(&next).is_some(), || end(reply)));
    }
}

#[tokio::test]
async fn a_modern_client_may_call_again_as_soon_as_it_has_its_answer() {
    let endpoint = ModernEndpoint::new(&face(), Principal::LocalUser, Instant::now());
    let begin = |endpoint: &Arc<ModernEndpoint>| endpoint.begin(&request(), RawId::from(1), Instant::now());
    let ends: [fn(ModernCallGuard); 2] =
        [|call| call.answer(OutgoingLine::from(Bytes::from_static(b"{}")), None), |call| drop(call)];
    for end in ends {
        let call = begin(&endpoint).expect("it is the first");
        assert!(begin(&endpoint).is_none(), "one at a time");
        let (stream, endpoint) = (call.call.stream.clone(), endpoint.clone());
        assert!(finds_place_when_told(&stream, move || begin(&endpoint).is_some(), || end(call)));
    }
}
