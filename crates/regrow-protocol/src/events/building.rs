//! One event while it is being read, field by field.

use std::mem;
use std::time::Duration;

use bytes::Bytes;

use super::Event;
use crate::frame::Salvage;
use crate::lines::Line;

/// Names, ids and pauses are short; longer ones are passed over.
pub(super) const MAX_FIELD: usize = 1024;
/// An event over the cap is followed for so many times the cap, to learn whom to tell.
const FOLLOW: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment, or what nobody knows.
    Other,
}

#[derive(Default)]
pub(super) struct Building {
    /// The name of the field that is being read.
    pub(super) name: Vec<u8>,
    value: Vec<u8>,
    data: Option<Vec<u8>>,
    cut: Option<Cut>,
    fields: Event,
    any: bool,
}

/// Data over the cap.
struct Cut {
    bytes: u64,
    salvage: Salvage,
}

impl Building {
    /// A field's name is complete.
    pub(super) fn begin(&mut self, max_data: usize) -> Field {
        let field = match &self.name[..] {
            b"data" => Field::Data,
            b"event" => Field::Event,
            b"id" => Field::Id,
            b"retry" => Field::Retry,
            _ => Field::Other,
        };
        self.name.clear();
        self.value.clear();
        self.any |= field != Field::Other;
        if field == Field::Data {
            // Several lines of data are one text.
            match &self.data {
                Some(_) => self.push_data(b"\n", max_data),
                None => self.data = Some(vec![]),
            }
        }
        field
    }

    /// More of a value.
    pub(super) fn push(&mut self, field: Field, bytes: &[u8], max_data: usize) {
        match field {
            Field::Data => self.push_data(bytes, max_data),
            Field::Other => {}
            Field::Event | Field::Id | Field::Retry => keep(&mut self.value, bytes),
        }
    }

    fn push_data(&mut self, bytes: &[u8], max_data: usize) {
        let data = self.data.get_or_insert_default();
        if self.cut.is_none() && data.len() + bytes.len() <= max_data {
            return data.extend_from_slice(bytes);
        }
        let stored = mem::take(data);
        let cut = self.cut.get_or_insert_with(|| {
            let mut cut = Cut { bytes: 0, salvage: Salvage::default() };
            cut.push(&stored);
            cut
        });
        cut.push(bytes);
    }

    pub(super) fn data(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }

    pub(super) fn take_data(&mut self) -> Bytes {
        self.data.as_mut().map(mem::take).unwrap_or_default().into()
    }

    pub(super) fn is_message(&self) -> bool {
        self.fields.is_message()
    }

    /// Whether it was followed for too long.
    pub(super) fn is_endless(&self, max_data: usize) -> bool {
        let most = (max_data as u64).saturating_mul(FOLLOW);
        self.cut.as_ref().is_some_and(|cut| cut.bytes > most)
    }

    /// A field is complete.
    pub(super) fn end(&mut self, field: Field) {
        if self.value.len() > MAX_FIELD {
            return;
        }
        let Ok(value) = std::str::from_utf8(&self.value) else { return };
        match field {
            Field::Event => self.fields.name = Some(value.to_owned()),
            Field::Id if !value.contains('\0') => self.fields.id = Some(value.to_owned()),
            Field::Retry => self.fields.retry = milliseconds(value).or(self.fields.retry),
            Field::Id | Field::Data | Field::Other => {}
        }
    }

    /// A blank line: the event, if there is one.
    pub(super) fn finish(&mut self) -> Option<Event> {
        let Building { data, cut, fields, any, .. } = mem::take(self);
        let line = match (cut, data) {
            (Some(cut), _) => Some(Line::TooLong { bytes: cut.bytes, salvage: cut.salvage.finish() }),
            (None, Some(data)) if !data.trim_ascii().is_empty() => Some(Line::Whole(data.into())),
            (None, _) => None,
        };
        any.then_some(Event { data: line, ..fields })
    }
}

impl Cut {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.salvage.push(bytes);
    }
}

/// Digits only; more than fit count as forever.
fn milliseconds(value: &str) -> Option<Duration> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| Duration::from_millis(value.parse().unwrap_or(u64::MAX)))
}

/// Stores a little more than the longest, so that what is too long is seen to be.
pub(super) fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    let room = (MAX_FIELD + 1).saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}
