//! An answer over plain HTTP: however it is cut, its body is the same, and no longer than what came.

use regrow::fuzzing::answer;

use crate::pieces::cuts;

pub(super) fn run(input: &[u8]) {
    let whole = answer([input]);
    if let Some((status, body, _)) = &whole {
        assert!((100..1000).contains(status) && body.len() < input.len(), "{whole:?}");
    }
    for pieces in cuts(input) {
        assert_eq!(answer(pieces.iter().copied()), whole, "cut into {} pieces", pieces.len());
    }
}
