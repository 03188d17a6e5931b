//! What stands behind an error.

use std::error::Error;
use std::io;

use regrow_protocol::text::escape;

/// What the deepest cause says, escaped. reqwest's own errors quote the URL.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut causes = causes(error);
    let root =
        causes.pop().map_or_else(|| "the request could not be made".to_owned(), |cause| cause.to_string());
    escape(&root)
}

/// The first of this type among an error and its causes.
pub fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    causes(error).into_iter().find_map(|cause| cause.downcast_ref())
}

/// An error, unless it is reqwest's own, and all that is behind it, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    let mut causes = vec![];
    let mut next = if error.is::<reqwest::Error>() { error.source() } else { Some(error) };
    while let Some(cause) = next {
        causes.push(cause);
        // An `io::Error` names as its source what is behind its inner error, not that itself.
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => cause.source(),
        };
    }
    causes
}
