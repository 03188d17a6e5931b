//! The endpoints of all principals and endpoints.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Face;
use super::modern_endpoint::{ModernEndpoint, ModernPresence};
use super::refusal::Refusal;
use crate::admit::{Principal, ServerScope};

#[derive(Default)]
pub(super) struct ModernEndpoints {
    /// As many as there are principals and servers, at most.
    endpoints: Mutex<HashMap<EndpointKey, Arc<ModernEndpoint>>>,
}

/// Whose, and of which server if not of all.
type EndpointKey = (Principal, Option<String>);

impl ModernEndpoints {
    /// The endpoint for these, which may be new.
    pub(super) fn enter(
        &self,
        face: &Face,
        scope: &ServerScope,
        principal: Principal,
    ) -> Result<ModernPresence, Refusal> {
        if face.is_closing() {
            return Err(Refusal::closing());
        }
        let server = match scope {
            ServerScope::All => None,
            ServerScope::One(name) => Some(name.clone()),
        };
        let mut endpoints = self.endpoints();
        let key = (principal, server);
        if let Some(endpoint) = endpoints.get(&key).filter(|endpoint| endpoint.client().is_some()) {
            return Ok(endpoint.visit()); // Under the lock, so that it is not swept away in between.
        }
        let endpoint = ModernEndpoint::new(face, principal, Instant::now());
        endpoint.settle_in(face.admit.admit(scope, principal, endpoint.clone())?);
        endpoints.insert(key, endpoint.clone());
        Ok(endpoint.visit())
    }

    /// Forgets those that nobody uses.
    pub(super) fn sweep(&self, now: Instant) {
        let idle: Vec<_> = self.endpoints().extract_if(|_, endpoint| endpoint.is_idle(now)).collect();
        idle.iter().for_each(|(_, endpoint)| endpoint.end());
    }

    /// Ends the streams that have no end of their own.
    pub(super) fn hush(&self) {
        self.endpoints().values().for_each(|endpoint| endpoint.hush());
    }

    pub(super) fn end_all(&self) {
        let all = std::mem::take(&mut *self.endpoints());
        all.values().for_each(|endpoint| endpoint.end());
    }

    fn endpoints(&self) -> MutexGuard<'_, HashMap<EndpointKey, Arc<ModernEndpoint>>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
