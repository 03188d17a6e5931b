//! From where a stream of events goes on after it was cut.

use std::time::Duration;

use http::HeaderValue;
use regrow_protocol::events::Event;

/// From where a stream goes on after it was cut.
#[derive(Clone, Debug)]
pub(super) struct Bookmark {
    pub(super) last: Option<HeaderValue>,
    pub(super) retry: Duration,
}

const USUAL_RETRY: Duration = Duration::from_millis(100);
const RETRY: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30);

impl Default for Bookmark {
    fn default() -> Bookmark {
        Bookmark { last: None, retry: USUAL_RETRY }
    }
}

impl Bookmark {
    pub(super) fn note(&mut self, event: &Event) {
        if let Some(id) = &event.id {
            // An empty id takes the bookmark out.
            self.last = HeaderValue::from_str(id).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = retry.clamp(*RETRY.start(), *RETRY.end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_neither_nothing_nor_for_ever() {
        let pause = |millis: Option<u64>| {
            let mut bookmark = Bookmark::default();
            bookmark.note(&Event { retry: millis.map(Duration::from_millis), ..Event::default() });
            bookmark.retry.as_millis()
        };
        let pauses = [None, Some(0), Some(250), Some(u64::MAX)].map(pause);
        assert_eq!(pauses, [100, 100, 250, 30_000]);
    }

    #[test]
    fn an_empty_id_takes_the_bookmark_out() {
        let mut bookmark = Bookmark::default();
        for (id, last) in
            [("a", Some("a")), ("b\tc", Some("b\tc")), ("x\u{7f}", None), ("d", Some("d")), ("", None)]
        {
            bookmark.note(&Event { id: Some(id.into()), ..Event::default() });
            assert_eq!(bookmark.last.as_ref().map(|last| last.to_str().unwrap()), last);
        }
    }
}
