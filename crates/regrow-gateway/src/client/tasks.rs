//! Tasks of the legacy era: whose they are.

use std::collections::{HashMap, VecDeque};

use regrow::Request;
use regrow_protocol::error_code;

use super::Client;
use super::call::OnEnd;
use super::greeting::parsed;
use crate::answers;
use crate::server::Key;

/// At most this many of a client's tasks are remembered, the newest.
const MAX_TASKS: usize = 1024;

/// At which server the tasks of a client run.
#[derive(Default)]
pub(super) struct Tasks {
    places: HashMap<String, Key>,
    order: VecDeque<String>,
}

impl Tasks {
    fn remember(&mut self, task: String, key: Key) {
        if self.places.insert(task.clone(), key).is_none() {
            self.order.push_back(task);
        }
        if self.order.len() > MAX_TASKS {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.places.remove(&oldest));
        }
    }
}

impl Client {
    /// Asks for a task, or cancels it, where it runs.
    pub(super) fn task(&self, request: Request) {
        let params = parsed(request.frame.params());
        let key = params["taskId"].as_str().and_then(|task| self.state().tasks.places.get(task).copied());
        let server = key.and_then(|key| self.servers.get(key)).or_else(|| self.only_server());
        match server {
            Some(server) => self.call(&server, request, OnEnd::Nothing),
            None if params["taskId"].is_string() => {
                request.reply.end(answers::refusal(
                    error_code::INVALID_PARAMS,
                    "Invalid params: no task has this id",
                    None,
                ));
            }
            None => request.reply.end(answers::unknown_method()),
        }
    }

    /// Where a task runs that a call has started.
    pub(super) fn remember_task(&self, task: &str, key: Key) {
        self.state().tasks.remember(task.to_owned(), key);
    }
}
