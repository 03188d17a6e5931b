//! Who may hold how many bytes, and who gives way.
//!
//! The sum never exceeds the total. While there is room, a holder may take up to its own limit. When there is none, a holder that stays
//! within its fair share (the total divided by the number of holders) is served all the same: those above theirs give way, the one with
//! most first, and its largest piece first.

use std::collections::{BTreeMap, BTreeSet};

/// See the head of this file. `H` is who holds, `T` is returned when a piece gives way.
#[derive(Debug)]
pub(super) struct ByteShares<H, T> {
    total: usize,
    most_each: usize,
    held: usize,
    holders: BTreeMap<H, ByteHolder>,
    pieces: BTreeMap<u64, Piece<H, T>>,
    last: u64,
}

#[derive(Debug, Default)]
struct ByteHolder {
    bytes: usize,
    pieces: usize,
    /// The pieces that may give way, the largest last.
    cuttable: BTreeSet<(usize, u64)>,
}

#[derive(Debug)]
struct Piece<H, T> {
    holder: H,
    bytes: usize,
    /// None where it cannot give way.
    ticket: Option<T>,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It would be more than one principal may hold.
    #[error("this client uses more than its share of the gateway's memory")]
    Share,
    /// The budget is used up, and this principal holds its fair share.
    #[error("the gateway's memory budget is used up")]
    Full,
    /// It had room, and gave way to another principal.
    #[error("the gateway's memory budget is used up, and this client used most of it")]
    GaveWay,
}

impl<H: Ord + Copy, T> ByteShares<H, T> {
    pub(super) fn new(total: usize, most_each: usize) -> ByteShares<H, T> {
        let (holders, pieces) = (BTreeMap::new(), BTreeMap::new());
        ByteShares { total, most_each, held: 0, holders, pieces, last: 0 }
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// One more piece: its number, and the tickets of those that give way.
    pub(super) fn take(&mut self, holder: H, bytes: usize, ticket: T) -> Result<(u64, Vec<T>), Refused> {
        let cut = self.make_room(holder, bytes)?;
        self.last += 1;
        let of = self.holders.entry(holder).or_default();
        of.pieces += 1;
        of.bytes += bytes;
        of.cuttable.insert((bytes, self.last));
        self.held += bytes;
        self.pieces.insert(self.last, Piece { holder, bytes, ticket: Some(ticket) });
        Ok((self.last, cut))
    }

    /// A piece has another size from now on, if there is room: the tickets of those that give way.
    pub(super) fn resize(&mut self, number: u64, bytes: usize) -> Result<Vec<T>, Refused> {
        let (holder, before) =
            self.pieces.get(&number).map(|it| (it.holder, it.bytes)).ok_or(Refused::GaveWay)?;
        let cut = self.make_room(holder, bytes.saturating_sub(before))?;
        if let (Some(of), Some(piece)) = (self.holders.get_mut(&holder), self.pieces.get_mut(&number)) {
            piece.bytes = bytes;
            of.bytes = of.bytes - before + bytes;
            if of.cuttable.remove(&(before, number)) {
                of.cuttable.insert((bytes, number));
            }
            self.held = self.held - before + bytes;
        }
        Ok(cut)
    }

    /// A piece cannot give way any more, unless it has already.
    pub(super) fn pin(&mut self, number: u64) -> Result<(), Refused> {
        let piece = self.pieces.get_mut(&number).ok_or(Refused::GaveWay)?;
        piece.ticket = None;
        if let Some(of) = self.holders.get_mut(&piece.holder) {
            of.cuttable.remove(&(piece.bytes, number));
        }
        Ok(())
    }

    /// A piece is held no more. Returns its ticket, if it could still have given way.
    pub(super) fn release(&mut self, number: u64) -> Option<T> {
        let Piece { holder, bytes, ticket } = self.pieces.remove(&number)?;
        self.held -= bytes;
        if let Some(of) = self.holders.get_mut(&holder) {
            of.bytes -= bytes;
            of.pieces -= 1;
            of.cuttable.remove(&(bytes, number));
            if of.pieces == 0 {
                self.holders.remove(&holder);
            }
        }
        ticket
    }

    /// Nobody gives way if that does not help.
    fn make_room(&mut self, holder: H, more: usize) -> Result<Vec<T>, Refused> {
        let own = self.holders.get(&holder).map_or(0, |of| of.bytes).saturating_add(more);
        if more > 0 && own > self.most_each {
            return Err(Refused::Share);
        }
        let lacking = self.held.saturating_add(more).saturating_sub(self.total);
        if lacking == 0 {
            return Ok(vec![]);
        }
        let count = self.holders.len() + usize::from(!self.holders.contains_key(&holder));
        let fair = self.total / count;
        if own > fair {
            return Err(Refused::Full);
        }
        let cut = self.cut(holder, fair, lacking).ok_or(Refused::Full)?;
        Ok(cut.into_iter().filter_map(|number| self.release(number)).collect())
    }

    /// The pieces that give way, so that this much becomes free.
    fn cut(&self, holder: H, fair: usize, lacking: usize) -> Option<Vec<u64>> {
        let others = self.holders.iter().filter(|(other, of)| **other != holder && of.bytes > fair);
        let mut above: Vec<_> = others.map(|(_, of)| (of.bytes, of.cuttable.iter().rev())).collect();
        let (mut cut, mut freed) = (vec![], 0);
        while freed < lacking {
            above.retain(|(bytes, pieces)| *bytes > fair && pieces.len() > 0);
            let (bytes, pieces) = above.iter_mut().max_by_key(|(bytes, _)| *bytes)?;
            let (size, number) = pieces.next()?;
            *bytes -= size;
            freed += size;
            cut.push(*number);
        }
        Some(cut)
    }
}
