//! One stream, without a connection.

use super::*;
use crate::admit::Principal;
use crate::shares::Shares;

fn stream(messages: usize, bytes: usize) -> (Arc<ReplyStream>, Arc<UnreadLimit>) {
    let room = Arc::new(UnreadLimit::new(10));
    let account = account(&Arc::default(), Principal::LocalUser);
    (ReplyStream::new(1, Keep { messages, bytes }, room.clone(), account, Instant::now()), room)
}

fn account(shares: &Arc<Shares>, principal: Principal) -> Account {
    Account { shares: shares.clone(), principal }
}

fn line(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// All that is there for a listener.
fn read(stream: &ReplyStream, listener: u64) -> Vec<String> {
    let mut read = vec![];
    loop {
        match stream.poll_next(listener, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(NextMessage::Message { number, line }) => {
                read.push(format!("{number} {}", String::from_utf8_lossy(&line.message.into_line())));
            }
            Poll::Ready(NextMessage::Piece { number, is_first, bytes }) => {
                let sign = if is_first { "begins" } else { "goes on" };
                read.push(format!("{number} {sign} {}", String::from_utf8_lossy(&bytes)));
            }
            Poll::Ready(NextMessage::PiecesOver) => read.push("whole".into()),
            Poll::Ready(NextMessage::End) => {
                read.push("end".into());
                return read;
            }
            Poll::Ready(NextMessage::Broken) => {
                read.push("broken".into());
                return read;
            }
            Poll::Pending => return read,
        }
    }
}

fn first(stream: &ReplyStream) -> Poll<First> {
    stream.poll_first(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn who_comes_back_gets_the_rest_and_no_more_than_is_kept() {
    let (stream, _) = stream(2, 100);
    let one = stream.listen(None, None).unwrap();
    for text in ["a", "b", "c", "d"] {
        assert!(stream.push(line(text), Weight::Notification));
    }
    assert_eq!(read(&stream, one), ["1 a", "2 b", "3 c", "4 d"]);
    assert!(stream.listen(None, None).is_none(), "one at a time");
    stream.leave(one, Instant::now());
    stream.finish(Some(line("e").into()), None);
    let two = stream.listen(Some(1), None).unwrap();
    assert_eq!(read(&stream, two), ["3 c", "4 d", "5 e", "end"], "two that were read are kept");
    assert_eq!(read(&stream, one), ["end"], "who left is not told");
    assert!(!stream.push(line("f"), Weight::Notification));
}

#[test]
fn while_nobody_listens_the_newest_notifications_win_and_questions_stay() {
    let (stream, room) = stream(2, 100);
    stream.push(line("question"), Weight::Needed);
    for text in ["a", "b", "c"] {
        stream.push(line(text), Weight::Notification);
    }
    assert!(room.is_left(), "what nobody reads holds up nobody");
    let listener = stream.listen(None, None).unwrap();
    assert_eq!(read(&stream, listener), ["1 question", "4 c"]);
}

#[test]
fn what_a_listener_does_not_read_takes_room() {
    let (stream, room) = stream(9, 100);
    let listener = stream.listen(None, None).unwrap();
    stream.push(line("0123456789ab"), Weight::Notification);
    assert!(!room.is_left());
    read(&stream, listener);
    assert!(room.is_left());
    stream.push(line("0123456789ab"), Weight::Notification);
    drop(stream);
    assert!(room.is_left());
}

#[test]
fn an_answer_that_comes_first_is_no_stream() {
    let (silent, _) = stream(9, 100);
    assert_eq!(first(&silent), Poll::Pending);
    silent.finish(Some(line("a").into()), Some(-5));
    assert_eq!(first(&silent), Poll::Ready(First::Answer(line("a").into(), Some(-5))));
    let (talking, _) = stream(9, 100);
    talking.push(line("a"), Weight::Notification);
    assert_eq!(first(&talking), Poll::Ready(First::Stream));
    talking.finish(Some(line("b").into()), None);
    assert_eq!(first(&talking), Poll::Ready(First::Stream));
    let (ended, _) = stream(9, 100);
    ended.close();
    assert_eq!(first(&ended), Poll::Ready(First::Stream));
}

#[test]
fn what_a_stream_holds_is_charged_until_the_last_byte_of_it_is_dropped() {
    let shares = Arc::new(Shares::new(1 << 20, true));
    let (room, keep) = (Arc::new(UnreadLimit::new(10)), Keep { messages: 2, bytes: 1 << 20 });
    let new = || {
        let account = account(&shares, Principal::LocalUser);
        ReplyStream::new(1, keep, room.clone(), account, Instant::now())
    };
    let held = || shares.memory().held;
    let large = new();
    let permit = large.charge(10_000).unwrap();
    let message = [b'x'; 2].map(|byte| vec![byte; 5000].into()).into_iter().collect();
    large.finish(Some(OutgoingLine { message, permit }), None);
    let Poll::Ready(First::Answer(mut answer, None)) = first(&large) else { panic!("an answer") };
    drop(large);
    let part = answer.next();
    drop(answer);
    assert_eq!(held(), 10_000, "it is on its way to the client");
    drop(part);
    assert_eq!(held(), 0);

    let small = new();
    let listener = small.listen(None, None).unwrap();
    let push = || small.push(vec![b'x'; 3000].into(), Weight::Notification);
    assert!(push());
    assert_eq!(held(), 0, "a little is free while somebody listens");
    assert!(push() && push());
    assert_eq!(held(), 8192);
    small.leave(listener, Instant::now());
    assert_eq!(held(), 6000, "two are kept for a client that comes back, and charged in full");
    drop(small);
    assert_eq!(held(), 0);
}

#[test]
fn without_room_a_stream_keeps_what_somebody_waits_for() {
    let shares = Arc::new(Shares::new(8000, true));
    let (room, keep) = (Arc::new(UnreadLimit::new(10)), Keep { messages: 99, bytes: 1 << 20 });
    let stream = ReplyStream::new(1, keep, room, account(&shares, Principal::LocalUser), Instant::now());
    let listener = stream.listen(None, None).unwrap();
    assert!(!stream.push(vec![b'x'; 9000].into(), Weight::Needed), "too large");
    stream.push(line("needed"), Weight::Needed);
    for _ in 0..4 {
        stream.push(vec![b'x'; 3000].into(), Weight::Notification);
    }
    assert!(shares.memory().held <= 8000 && stream.size() <= 8000, "{}", stream.size());
    assert_eq!(read(&stream, listener)[0], "1 needed");
}

#[test]
fn a_stream_gives_way_to_another_principal() {
    let shares = Arc::new(Shares::new(30_000, false));
    let (room, keep) = (Arc::new(UnreadLimit::new(10)), Keep { messages: 99, bytes: 1 << 20 });
    let of = |principal| {
        let stream = ReplyStream::new(1, keep, room.clone(), account(&shares, principal), Instant::now());
        let permit = stream.charge(14_000);
        permit.map(|permit| {
            (
                stream.finish(
                    Some(OutgoingLine { message: Bytes::from(vec![b'x'; 14_000]).into(), permit }),
                    None,
                ),
                stream,
            )
                .1
        })
    };
    let streams = [0, 1].map(|token| of(Principal::Client(token)).unwrap());
    assert!(of(Principal::Client(2)).is_err(), "it would be above its fair share");
    let third = shares.take(Principal::Client(2), 9000, || {});
    assert!(third.is_ok());
    assert_eq!(streams.map(|stream| stream.size()).iter().sum::<usize>(), 14_000);
    assert_eq!(shares.memory().cut, 1);
}

mod streamed {
    use std::collections::VecDeque;

    use regrow::transport::{ResponseStream, StreamEnd};
    use regrow_protocol::frame::{RawId, StreamedResponse};

    use super::*;

    const START: &str = r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"a"#;
    const END: &str = r#"b"}]}}"#;
    const ERROR: &str =
        r#"{"jsonrpc":"2.0","id":"c","result":{"content":[{"type":"text","text":"no"}],"isError":true}}"#;

    /// A stream whose response has begun, and who listens to it.
    fn begun() -> (Arc<ReplyStream>, CallStream, u64) {
        let (stream, _) = stream(2, 1000);
        let listener = stream.listen(None, None).unwrap();
        let call = CallStream { id: RawId::parse(b"\"c\"").unwrap(), stream: stream.clone() };
        begin(&call);
        (stream, call, listener)
    }

    fn begin(call: &CallStream) {
        let mut told = VecDeque::new();
        let response = StreamedResponse::begin(RawId::from(5), call.id().unwrap(), line(START), &mut told);
        call.begin(response.unwrap(), told);
    }

    /// What a listener has got, as one text.
    fn text(read: &[String]) -> String {
        let piece = |read: &String| read.splitn(4, ' ').last().unwrap_or_default().to_owned();
        read.iter()
            .filter(|read| read.contains(" begins ") || read.contains(" goes on "))
            .map(piece)
            .collect()
    }

    #[test]
    fn its_end_is_told_when_the_call_has_ended() {
        let (stream, call, listener) = begun();
        assert!(matches!(first(&stream), Poll::Ready(First::Partial)));
        assert!(!stream.push(line("late"), Weight::Needed), "it is the last message");
        assert!(stream.has_ended());
        call.push(line(END)).unwrap();
        assert_eq!(call.finish(), Ok(false));
        assert!(!stream.has_lost_streamed());
        let mut got = read(&stream, listener);
        assert_eq!(read(&stream, listener), [""; 0]);
        stream.finish(Some(line("{}").into()), None);
        got.extend(read(&stream, listener));
        assert!(got[0].starts_with("1 begins {"), "{got:?}");
        assert_eq!(got[got.len() - 2..], ["whole", "end"]);
        assert_eq!(text(&got), format!("{START}{END}").replace("5", "\"c\""));
    }

    #[test]
    fn it_ends_as_the_error_that_its_call_ends_with() {
        let (stream, call, listener) = begun();
        assert_eq!(call.finish(), Err(StreamEnd::Cut));
        stream.finish(Some(line(ERROR).into()), None);
        assert_eq!(call.push(line(END)), Err(StreamEnd::Gone));
        assert_eq!(call.finish(), Err(StreamEnd::Gone));
        let got = read(&stream, listener);
        assert_eq!(got[got.len() - 2..], ["whole", "end"]);
        let expected = format!(r#"{START}"}},{{"text":"no","type":"text"}}],"isError":true}}}}"#);
        assert_eq!(text(&got), expected.replace("5", "\"c\""));
    }

    #[test]
    fn without_an_error_to_tell_it_is_broken_off() {
        let (stream, call, listener) = begun();
        assert_eq!(call.push(line("\n")), Err(StreamEnd::Malformed));
        stream.close();
        assert_eq!(read(&stream, listener).last().unwrap(), "broken");
    }

    #[test]
    fn who_left_gets_the_error_when_it_comes_back() {
        let (stream, call, listener) = begun();
        read(&stream, listener);
        stream.leave(listener, Instant::now());
        assert_eq!(call.push(line(END)), Err(StreamEnd::Gone));
        assert!(stream.has_lost_streamed());
        stream.finish(Some(line(ERROR).into()), None);
        let again = stream.listen(Some(1), None).unwrap();
        assert_eq!(read(&stream, again), [format!("2 {ERROR}"), "end".into()]);
    }

    #[test]
    fn nothing_is_streamed_to_nobody_or_twice() {
        let (stream, _) = stream(2, 1000);
        let call = CallStream { id: RawId::from(1), stream: stream.clone() };
        assert_eq!(call.id(), None);
        stream.listen(None, None).unwrap();
        assert!(call.id().is_some());
        begin(&call);
        assert_eq!(call.id(), None);
    }

    #[test]
    fn it_waits_for_a_client_that_does_not_read() {
        let (stream, call, listener) = begun();
        let call = Arc::new(call);
        let mut room = call.clone().room();
        let mut is_there = || room.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(is_there());
        call.push(Bytes::from(vec![b'x'; 1 << 20])).unwrap();
        room = call.clone().room();
        let mut is_there = || room.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_there());
        read(&stream, listener);
        assert!(is_there());
    }

    #[test]
    fn without_memory_for_it_its_client_is_told() {
        let shares = Arc::new(Shares::new(1000, true));
        let limit = Arc::new(UnreadLimit::new(10));
        let account = account(&shares, Principal::LocalUser);
        let stream = ReplyStream::new(1, Keep { messages: 1, bytes: 10 }, limit, account, Instant::now());
        let listener = stream.listen(None, None).unwrap();
        let call = CallStream { id: RawId::from(1), stream: stream.clone() };
        begin(&call);
        assert_eq!(call.push(line(END)), Err(StreamEnd::Gone));
        assert!(stream.has_lost_streamed());
        stream.finish(Some(line("e").into()), None);
        assert_eq!(read(&stream, listener), ["2 e", "end"]);
    }
}
