//! Tasks of the legacy era: whose they are.

use std::collections::{HashMap, VecDeque};
use std::sync::Weak;

use regrow::{Outcome, Reply, Request};
use regrow_protocol::error_code;

use super::Client;
use super::greeting::parsed;
use crate::answers;
use crate::server::Key;

/// So many of a client's tasks are remembered, the newest.
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
        let server = key.and_then(|key| self.gateway.server(key)).or_else(|| self.only_server());
        match server {
            Some(server) => self.call(&server, request),
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

    /// Remembers where a task runs, when its server has said what it calls it.
    pub(super) fn remembering(&self, key: Key, reply: Box<dyn Reply>) -> Box<dyn Reply> {
        Box::new(Begun { client: self.me.clone(), key, reply })
    }
}

/// Waits for a call to become a task.
struct Begun {
    client: Weak<Client>,
    key: Key,
    reply: Box<dyn Reply>,
}

impl Reply for Begun {
    fn end(self: Box<Self>, outcome: Outcome) {
        if let (Outcome::Answered(answer), Some(client)) = (&outcome, self.client.upgrade())
            && let Some(task) = parsed(answer.result())["task"]["taskId"].as_str()
        {
            client.state().tasks.remember(task.to_owned(), self.key);
        }
        self.reply.end(outcome);
    }
}
