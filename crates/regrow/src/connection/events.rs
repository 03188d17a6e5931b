//! What happened, for the owner of a connection.

use std::collections::VecDeque;

use regrow_core::{Epoch, Event};

use crate::transport::Ended;

/// Something that the owner must look at.
#[derive(Debug, PartialEq)]
pub(crate) enum OwnerEvent {
    /// For the supervisor.
    Supervisor(Event),
    /// Nothing is left of the epoch; how its process ended, if it had one, and how many helpers outside its group did.
    Gone(Epoch, Option<Ended>, usize),
    /// Messages that the server sent on its own may have been missed.
    Missed(Epoch),
}

impl From<Event> for OwnerEvent {
    fn from(event: Event) -> OwnerEvent {
        OwnerEvent::Supervisor(event)
    }
}

/// The events that the owner has not looked at. Programs can cause some as often as they like: those are kept once.
#[derive(Debug, Default)]
pub(crate) struct EventQueue(VecDeque<OwnerEvent>);

impl EventQueue {
    pub(crate) fn push(&mut self, event: impl Into<OwnerEvent>) {
        let event = event.into();
        match event {
            OwnerEvent::Missed(_)
            | OwnerEvent::Supervisor(
                Event::Start
                | Event::Reconnect(_)
                | Event::Mended
                | Event::Rest
                | Event::ResetBudget
                | Event::Drain
                | Event::Close(_)
                | Event::Doubted(_),
            ) if self.0.contains(&event) => {}
            // They undo each other: the last one counts.
            OwnerEvent::Supervisor(Event::Park | Event::Wake) => {
                self.0.retain(|known| *known != event);
                self.0.push_back(event);
            }
            OwnerEvent::Supervisor(Event::Cancelled(epoch, taken)) => {
                let known = self.0.iter_mut().find_map(|known| match known {
                    OwnerEvent::Supervisor(Event::Cancelled(of, eldest)) if *of == epoch => Some(eldest),
                    _ => None,
                });
                match known {
                    Some(eldest) => *eldest = taken.min(*eldest),
                    None => self.0.push_back(event),
                }
            }
            event => self.0.push_back(event),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self) -> VecDeque<OwnerEvent> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow_core::{Manner, Requester, Time};

    #[test]
    fn what_programs_may_say_in_a_loop_does_not_pile_up() {
        let mut events = EventQueue::default();
        for millis in 0..1000 {
            events.push(Event::Start);
            events.push(Event::Rest);
            events.push(Event::ResetBudget);
            events.push(Event::Reconnect(Requester::Program));
            events.push(Event::Cancelled(Epoch(1), Time::from_millis(1000 - millis)));
            events.push(Event::Close(Manner::Planned));
        }
        let events = events.take();
        assert_eq!(events.len(), 6);
        let eldest = OwnerEvent::Supervisor(Event::Cancelled(Epoch(1), Time::from_millis(1)));
        assert!(events.contains(&eldest), "a doubt is raised by the one that waited longest");
    }

    #[test]
    fn of_orders_that_undo_each_other_the_last_one_counts() {
        let mut events = EventQueue::default();
        for order in [Event::Park, Event::Wake, Event::Park] {
            events.push(order);
        }
        assert_eq!(events.take(), [Event::Wake, Event::Park].map(OwnerEvent::Supervisor));
    }
}
