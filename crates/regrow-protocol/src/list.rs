//! The lists that a server offers, and what the protocol calls their parts.

use crate::{method, notification};

/// One of the lists of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum List {
    /// What can be called.
    Tools,
    /// What can be said to a model.
    Prompts,
    /// What can be read.
    Resources,
    /// How more resources are named.
    Templates,
}

impl List {
    /// All of them.
    pub const ALL: [List; 4] = [List::Tools, List::Prompts, List::Resources, List::Templates];

    /// The method that asks for it.
    pub fn method(self) -> &'static str {
        match self {
            List::Tools => method::TOOLS_LIST,
            List::Prompts => method::PROMPTS_LIST,
            List::Resources => method::RESOURCES_LIST,
            List::Templates => method::RESOURCES_TEMPLATES_LIST,
        }
    }

    /// The list that this method asks for.
    pub fn by_method(method: &str) -> Option<List> {
        List::ALL.into_iter().find(|list| list.method() == method)
    }

    /// The capability of servers that have it.
    pub fn capability(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources | List::Templates => "resources",
        }
    }

    /// The member of a result that holds it.
    pub fn member(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "resourceTemplates",
        }
    }

    /// The notification of a change.
    pub fn notification(self) -> &'static str {
        match self {
            List::Tools => notification::TOOLS_LIST_CHANGED,
            List::Prompts => notification::PROMPTS_LIST_CHANGED,
            List::Resources | List::Templates => notification::RESOURCES_LIST_CHANGED,
        }
    }

    /// The lists that this notification reports a change of.
    pub fn changed_by(notification: &str) -> impl Iterator<Item = List> {
        List::ALL.into_iter().filter(move |list| list.notification() == notification)
    }

    /// The member of a subscription's filter that asks for changes; modern era.
    pub fn filter(self) -> &'static str {
        match self {
            List::Tools => "toolsListChanged",
            List::Prompts => "promptsListChanged",
            List::Resources | List::Templates => "resourcesListChanged",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_resources_concerns_their_templates_too() {
        let changed = |method: &'static str| List::changed_by(method).collect::<Vec<_>>();
        assert_eq!(changed("notifications/resources/list_changed"), [List::Resources, List::Templates]);
        assert_eq!(changed("notifications/tools/list_changed"), [List::Tools]);
        assert_eq!(changed("notifications/message"), []);
    }

    #[test]
    fn each_list_is_found_by_its_method() {
        assert!(List::ALL.into_iter().all(|list| List::by_method(list.method()) == Some(list)));
        assert_eq!(List::by_method("tools/call"), None);
    }
}
