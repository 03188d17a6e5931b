//! The place of a call, without a connection: that it is free before the answer is there shows only to who looks in that moment.

use std::sync::Mutex;
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

/// Runs something when it is woken, and keeps what that gave.
struct OnWake<F, T>(F, Mutex<Option<T>>);

impl<T: Send + Sync + 'static, F: Fn() -> T + Send + Sync + 'static> Wake for OnWake<F, T> {
    fn wake(self: Arc<Self>) {
        *self.1.lock().unwrap() = Some((self.0)());
    }
}

/// Ends a call, and gives what `look` finds in the moment in which its client is told.
fn when_told<T: Send + Sync + 'static>(
    stream: &ReplyStream,
    look: impl Fn() -> T + Send + Sync + 'static,
    end: impl FnOnce(),
) -> T {
    let told = Arc::new(OnWake(look, Mutex::new(None)));
    let waker = Waker::from(told.clone());
    assert!(stream.poll_first(&mut Context::from_waker(&waker)).is_pending());
    end();
    told.1.lock().unwrap().take().expect("the client is told")
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
        let is_free = when_told(&stream, move || session.begin(&next).is_some(), || end(reply));
        assert!(is_free);
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
        let is_free = when_told(&stream, move || begin(&endpoint).is_some(), || end(call));
        assert!(is_free);
    }
}
