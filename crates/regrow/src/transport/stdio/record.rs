//! What the guard is told, as it goes through the pipe.

/// One message to the guard. All are of one size and small, so each is written whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// What happened.
    pub(super) news: News,
    /// The leader of the group.
    pub(super) pid: i32,
    /// Which server.
    pub(super) serial: u64,
}

/// What happened to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It runs, or is about to.
    Born = 1,
    /// Its group is empty and its leader about to be reaped.
    Gone = 2,
}

impl Record {
    pub(super) const SIZE: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Record::SIZE] {
        let mut bytes = [0; Record::SIZE];
        bytes[0] = self.news as u8;
        bytes[4..8].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.serial.to_ne_bytes());
        bytes
    }

    /// `None` if this is not of our making.
    pub(super) fn from_bytes(bytes: &[u8; Record::SIZE]) -> Option<Record> {
        let news = match bytes[0] {
            1 => News::Born,
            2 => News::Gone,
            _ => return None,
        };
        Some(Record {
            news,
            pid: i32::from_ne_bytes(bytes[4..8].try_into().ok()?),
            serial: u64::from_ne_bytes(bytes[8..16].try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_out_as_it_went_in() {
        let record = Record { news: News::Gone, pid: 4711, serial: u64::MAX - 1 };
        assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
        assert_eq!(Record::from_bytes(&[0; Record::SIZE]), None);
    }
}
