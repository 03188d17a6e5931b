//! A message again, with other ids: spans are replaced, and every other byte stays as it was written.

use bytes::Bytes;

use super::member::Member;
use super::span::Span;
use super::{Frame, RawId, build};

/// One value to replace in a message.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'a> {
    /// `id`.
    Id(&'a RawId),
    /// `params.requestId`, of a cancellation.
    RequestId(&'a RawId),
    /// `params._meta["io.modelcontextprotocol/subscriptionId"]`.
    SubscriptionId(&'a RawId),
    /// `params.name`, of a tool or a prompt; a string.
    Name(&'a RawId),
    /// `params.uri`, of a resource; a string.
    Uri(&'a RawId),
    /// `params._meta.progressToken`, of a request.
    MetaProgressToken(&'a RawId),
    /// `params.progressToken`, of a progress notification.
    ProgressToken(&'a RawId),
}

impl Frame {
    /// The message with these values replaced, as a line. What it does not have is not added; each may be replaced once.
    pub fn with<const N: usize>(&self, edits: [Edit<'_>; N]) -> Bytes {
        self.spliced(self.splices(edits))
    }

    /// The same, as one more line at the end of these.
    pub fn append_with<const N: usize>(&self, edits: [Edit<'_>; N], lines: &mut Vec<u8>) {
        self.append_spliced(self.splices(edits), lines);
    }

    /// The message with these values replaced. It is not read again: where its other members stand follows from the lengths.
    pub fn edited<const N: usize>(&self, edits: [Edit<'_>; N]) -> Frame {
        let splices = self.splices(edits);
        let moved = |place: usize| {
            let before = splices.iter().filter(|(span, _)| span.end() <= place);
            before.fold(place, |place, (span, new)| place + new.len() - span.range().len())
        };
        let mut envelope = self.envelope.clone();
        for span in envelope.places.all() {
            *span = Span::new(moved(span.range().start), moved(span.end()));
        }
        let line = self.spliced(splices);
        Frame { bytes: line.slice(..line.len() - 1), envelope }
    }

    /// What is absent becomes an empty splice at the start: nothing for nothing.
    pub(super) fn splices<'a, const N: usize>(&self, edits: [Edit<'a>; N]) -> [(Span, &'a [u8]); N] {
        let mut splices = edits.map(|edit| match self.splice(edit) {
            (span, _) if span.is_empty() => (span, &[][..]),
            splice => splice,
        });
        splices.sort_unstable_by_key(|(span, _)| span.end());
        splices
    }

    fn spliced<const N: usize>(&self, splices: [(Span, &[u8]); N]) -> Bytes {
        let replaced: usize = splices.iter().map(|(span, _)| span.range().len()).sum();
        let replacing: usize = splices.iter().map(|(_, new)| new.len()).sum();
        // Exactly enough, newline included: then `Bytes` takes it over as it is.
        let mut line = Vec::with_capacity(self.bytes.len() - replaced + replacing + 1);
        self.append_spliced(splices, &mut line);
        line.into()
    }

    fn append_spliced<const N: usize>(&self, splices: [(Span, &[u8]); N], lines: &mut Vec<u8>) {
        let start = lines.len();
        let mut done = 0;
        for (span, new) in splices {
            lines.extend_from_slice(&self.bytes[done..span.range().start]);
            lines.extend_from_slice(new);
            done = span.end();
        }
        lines.extend_from_slice(&self.bytes[done..]);
        build::end_line(lines, start);
    }

    /// The message with another `id`, as a line.
    pub fn with_id(&self, id: &RawId) -> Bytes {
        self.with([Edit::Id(id)])
    }

    /// A cancellation of another request, as a line.
    pub fn with_request_id(&self, id: &RawId) -> Bytes {
        self.with([Edit::RequestId(id)])
    }

    /// A notification of another subscription, as a line.
    pub fn with_subscription_id(&self, id: &RawId) -> Bytes {
        self.with([Edit::SubscriptionId(id)])
    }

    /// The message as it is, as a line.
    pub fn to_line(&self) -> Bytes {
        self.with([])
    }

    fn splice<'a>(&self, edit: Edit<'a>) -> (Span, &'a [u8]) {
        let (member, new) = match edit {
            Edit::Id(new) => (Member::Id, new),
            Edit::RequestId(new) => (Member::RequestId, new),
            Edit::SubscriptionId(new) => (Member::SubscriptionId, new),
            Edit::Name(new) => (Member::Name, new),
            Edit::Uri(new) => (Member::Uri, new),
            Edit::MetaProgressToken(new) => (Member::MetaProgressToken, new),
            Edit::ProgressToken(new) => (Member::ProgressToken, new),
        };
        (self.envelope.places[member], new.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Kind;
    use super::super::random::Random;
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(Bytes::copy_from_slice(text.as_bytes()))
            .unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn value(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn only_the_id_changes_wherever_it_stands() {
        let id = RawId::parse(br#""new""#).unwrap();
        for (old, new) in [
            (r#"{"id":1,"method":"a"}"#, r#"{"id":"new","method":"a"}"#),
            (r#"{ "method" : "a" , "id" : 1e3 }"#, r#"{ "method" : "a" , "id" : "new" }"#),
            (r#"{"result":{"id":1},"\u0069d":"1"}"#, r#"{"result":{"id":1},"\u0069d":"new"}"#),
            (r#"{"error":{"code":1},"id":null}"#, r#"{"error":{"code":1},"id":"new"}"#),
            (r#"{"error":{"code":1}}"#, r#"{"error":{"code":1}}"#),
            (r#"{"method":"a","id":null}"#, r#"{"method":"a","id":null}"#),
        ] {
            assert_eq!(frame(old).with_id(&id), format!("{new}\n"));
        }
    }

    #[test]
    fn a_message_on_many_lines_becomes_one_line() {
        let pretty = frame("{\r\n  \"id\": 1,\n  \"method\": \"a\\nb\"\n}\r\n");
        assert_eq!(pretty.with_id(&2.into()), "{    \"id\": 2,   \"method\": \"a\\nb\" }\n");
    }

    #[test]
    fn cancellations_and_subscriptions_are_told_to_the_right_request() {
        let cancelled =
            frame(r#"{"method":"notifications/cancelled","params":{"reason":"x","requestId":5}}"#);
        let expected = r#"{"method":"notifications/cancelled","params":{"reason":"x","requestId":77}}"#;
        assert_eq!(cancelled.with_request_id(&77.into()), format!("{expected}\n"));

        let key = "io.modelcontextprotocol/subscriptionId";
        let updated = frame(&format!(r#"{{"method":"a","params":{{"_meta":{{"{key}":"s"}}}}}}"#));
        let expected = format!("{{\"method\":\"a\",\"params\":{{\"_meta\":{{\"{key}\":0}}}}}}\n");
        assert_eq!(updated.with_subscription_id(&0.into()), expected);
    }

    #[test]
    fn rewriting_changes_what_it_should_and_nothing_else() {
        for seed in 0..3_000 {
            let random = &mut Random::new(seed);
            let raw_id =
                |random: &mut Random| random.pick(&["0", "-7", "1.50", r#""""#, r#""\u00e9\"}""#]).to_owned();
            let meta = [
                ("progressToken", raw_id(random)),
                ("io.modelcontextprotocol/subscriptionId", raw_id(random)),
            ];
            let params = [
                ("_meta", random.object(&meta)),
                ("requestId", raw_id(random)),
                ("progressToken", raw_id(random)),
                ("arguments", random.value(4)),
            ];
            let message =
                [("id", raw_id(random)), ("method", r#""a\/b""#.into()), ("params", random.object(&params))];
            let text = random.object(&message);

            let old = frame(&text);
            let ids: [RawId; 5] =
                [100.into(), 2.into(), 30.into(), RawId::parse(br#""x""#).unwrap(), 5.into()];
            let edits = [
                Edit::ProgressToken(&ids[4]),
                Edit::Id(&ids[0]),
                Edit::MetaProgressToken(&ids[3]),
                Edit::RequestId(&ids[1]),
                Edit::SubscriptionId(&ids[2]),
            ];
            let line = old.with(edits);
            let mut expected = value(text.as_bytes());
            let envelope = expected.as_object_mut().unwrap();
            let written = envelope.len();
            envelope.retain(|key, _| ["id", "method", "params"].contains(&key.as_str()));
            assert_eq!(old.dropped_members() as usize, written - envelope.len(), "seed {seed}: {text}");
            expected["id"] = json!(100);
            expected["params"]["requestId"] = json!(2);
            expected["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] = json!(30);
            expected["params"]["_meta"]["progressToken"] = json!("x");
            expected["params"]["progressToken"] = json!(5);
            assert_eq!(value(&line), expected, "seed {seed}: {text}");
            let new = Frame::parse(line).unwrap();
            let mut edited = old.edited(edits);
            assert_eq!(edited.bytes(), new.bytes(), "seed {seed}: {text}");
            assert_eq!(edited.dropped_members(), old.dropped_members());
            edited.envelope.dropped = 0;
            assert_eq!(
                format!("{:?}", edited.envelope),
                format!("{:?}", new.envelope),
                "seed {seed}: {text}"
            );
            assert_eq!(
                new.kind(),
                Kind::Request { id: ids[0].clone(), method: "a/b" },
                "seed {seed}: {text}"
            );

            let back = Frame::parse(new.with([
                Edit::Id(&old.id().unwrap()),
                Edit::RequestId(&old.request_id().unwrap()),
                Edit::SubscriptionId(&old.subscription_id().unwrap()),
                Edit::MetaProgressToken(&RawId::parse(old.meta_progress_token().unwrap()).unwrap()),
                Edit::ProgressToken(&RawId::parse(old.progress_token().unwrap()).unwrap()),
            ]));
            let kept = String::from_utf8(old.bytes().to_vec()).unwrap();
            assert_eq!(back.unwrap().bytes(), &kept.replace('\r', " "), "seed {seed}");
        }
    }
}
