//! Panics of one life, wherever in its tasks they happen: tokio and the engine catch them, so only a hook sees all.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// None while no life is lived on this thread.
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs this, and gives what it came to, unless it panicked itself, and what panicked meanwhile on this thread.
pub(super) fn watched<T>(run: impl FnOnce() -> T) -> (Option<T>, Vec<String>) {
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            let noted =
                SEEN.with_borrow_mut(|seen| seen.as_mut().map(|seen| seen.push(panic.to_string())).is_some());
            if !noted {
                usual(panic);
            }
        }));
    });
    SEEN.set(Some(vec![]));
    let done = catch_unwind(AssertUnwindSafe(run)).ok(); // The hook has heard why.
    (done, SEEN.take().unwrap_or_default())
}
