//! The halls of all principals and endpoints.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Face;
use super::hall::{Hall, Visit};
use super::refusal::Refusal;
use crate::admit::{Principal, Scope};

#[derive(Default)]
pub(super) struct Halls {
    /// As many as there are principals and servers, at most.
    halls: Mutex<HashMap<Key, Arc<Hall>>>,
}

/// Whose, and of which server if not of all.
type Key = (Principal, Option<String>);

impl Halls {
    /// The hall for these, which may be new.
    pub(super) fn enter(&self, face: &Face, scope: &Scope, principal: Principal) -> Result<Visit, Refusal> {
        if face.is_closing() {
            return Err(Refusal::closing());
        }
        let server = match scope {
            Scope::All => None,
            Scope::One(name) => Some(name.clone()),
        };
        let mut halls = self.halls();
        let key = (principal, server);
        if let Some(hall) = halls.get(&key).filter(|hall| hall.client().is_some()) {
            return Ok(hall.visit()); // Under the lock, so that it is not swept away in between.
        }
        let hall = Hall::new(&face.limits, &face.census, Instant::now());
        hall.settle_in(face.admit.admit(scope, principal, hall.clone())?);
        halls.insert(key, hall.clone());
        Ok(hall.visit())
    }

    /// Forgets those that nobody uses.
    pub(super) fn sweep(&self, now: Instant) {
        let idle: Vec<_> = self.halls().extract_if(|_, hall| hall.is_idle(now)).collect();
        idle.iter().for_each(|(_, hall)| hall.end());
    }

    /// Ends the streams that have no end of their own.
    pub(super) fn hush(&self) {
        self.halls().values().for_each(|hall| hall.hush());
    }

    pub(super) fn end_all(&self) {
        let all = std::mem::take(&mut *self.halls());
        all.values().for_each(|hall| hall.end());
    }

    fn halls(&self) -> MutexGuard<'_, HashMap<Key, Arc<Hall>>> {
        self.halls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
