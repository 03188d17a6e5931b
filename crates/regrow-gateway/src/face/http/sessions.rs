//! All legacy sessions: how they begin, how they are found, and when they are forgotten.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use regrow::random_id;
use tokio::time::Instant;

use super::Face;
use super::connections::Slot;
use super::refusal::Refusal;
use super::session::{Identity, LegacyPresence, Registry, Session};
use crate::admit::{Principal, ServerScope};

#[derive(Default)]
pub(super) struct LegacySessions {
    registry: Arc<Registry>,
}

/// Whose session, at which endpoint, of which kind.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) scope: ServerScope,
    pub(super) principal: Principal,
    pub(super) is_older: bool,
    /// The connection of the request.
    pub(super) slot: Option<Arc<Slot>>,
}

impl LegacySessions {
    /// A client is admitted, under an id that nobody can guess.
    pub(super) fn begin(&self, face: &Face, caller: Caller) -> Result<LegacyPresence, Refusal> {
        if face.is_closing() {
            return Err(Refusal::closing());
        }
        let Caller { scope, principal, is_older, .. } = caller;
        let counted = face.face_stats.open(principal).ok_or_else(|| Refusal::full("too many sessions"))?;
        let id = random_id().ok_or_else(|| Refusal::full("cannot create a session id now"))?;
        let identity = Identity { id, scope, principal, is_older };
        let registry = Arc::downgrade(&self.registry);
        let session = Session::new(face, identity, counted, registry, Instant::now());
        let client = face.admit.admit(&session.scope, principal, session.clone())?;
        session.settle_in(client);
        self.registry().insert(session.id.clone(), session.clone());
        Ok(session.visit())
    }

    /// The session of this id. One of somebody else, or of another endpoint, is as unknown as any.
    pub(super) fn find(&self, id: &str, caller: &Caller) -> Result<LegacyPresence, Refusal> {
        let registry = self.registry();
        let is_the_callers = |session: &&Arc<Session>| {
            session.principal == caller.principal
                && session.scope == caller.scope
                && session.is_older == caller.is_older
        };
        // Under the lock, so that it is not swept away in between.
        let visit = registry.get(id).filter(is_the_callers).map(|session| session.visit());
        visit.ok_or_else(Refusal::no_session)
    }

    /// Forgets those that nobody uses.
    pub(super) fn sweep(&self, now: Instant) {
        let idle: Vec<_> = {
            let mut registry = self.registry();
            let idle: Vec<_> = registry.values().filter(|session| session.is_idle(now)).cloned().collect();
            idle.iter().for_each(|session| drop(registry.remove(&session.id)));
            registry.values().for_each(|session| session.prune(now));
            idle
        };
        idle.iter().for_each(|session| session.end());
    }

    /// Ends the streams that wait for nothing in particular.
    pub(super) fn hush(&self) {
        self.registry()
            .values()
            .filter(|session| !session.is_older)
            .for_each(|session| session.listening.close());
    }

    pub(super) fn end_all(&self) {
        let all = std::mem::take(&mut *self.registry());
        all.values().for_each(|session| session.end());
    }

    fn registry(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
