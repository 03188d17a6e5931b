//! What is done about a server that changes after it was approved.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use regrow::Unapproved;
use regrow_protocol::list::List;
use regrow_protocol::text::escape;
use serde_json::value::RawValue;
use serde_json::{Map, json};

use super::listing::Draft;
use super::pin_folder::{PinFolder, StoredPins};
use super::pins::{Change, Offer, PinOwner, Pins};
use super::{Catalog, Item, Listing};
use crate::audit::{Audit, Record};

/// What is done about a tool, a prompt or a server's command that changed since it was approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// Nothing; nothing is remembered.
    Off,
    /// It is told.
    #[default]
    Warn,
    /// It is told, and not used until it is approved.
    Hold,
}

/// The pins of one server while it is served.
#[derive(Debug)]
pub struct Pinning {
    mode: Pin,
    /// Its name, safe to print.
    name: Arc<str>,
    owner: PinOwner,
    /// Its command and arguments, or URL, as a hash.
    endpoint: String,
    /// None where nothing is kept between runs.
    folder: Option<PinFolder>,
    audit: Audit,
    state: Mutex<PinState>,
    /// Held while a file is written, so that the newest pins are written last.
    writing: Mutex<()>,
}

#[derive(Debug)]
enum PinState {
    Pins(Box<Pins>),
    Damaged(String),
}

impl Pinning {
    /// The pins of this server, as they are kept in this folder.
    pub fn new(
        mode: Pin,
        owner: PinOwner,
        endpoint: String,
        folder: Option<PinFolder>,
        audit: Audit,
    ) -> Pinning {
        let name = escape(&owner.server).into();
        let folder = folder.filter(|_| mode != Pin::Off);
        let first = PinState::Pins(Box::new(Pins::first(owner.clone(), &endpoint)));
        let (state, writing) = (Mutex::new(first), Mutex::default());
        let pinning = Pinning { mode, name, owner, endpoint, folder, audit, state, writing };
        pinning.reread();
        pinning
    }

    /// Without pins.
    pub fn off() -> Pinning {
        let owner = PinOwner { config: String::new(), server: String::new() };
        Pinning::new(Pin::Off, owner, String::new(), None, Audit::off())
    }

    /// Takes the pins as they are kept now: somebody may have approved something.
    pub fn reread(&self) {
        let Some(folder) = &self.folder else { return };
        let state = match folder.read(&self.owner) {
            StoredPins::None => PinState::Pins(Box::new(Pins::first(self.owner.clone(), &self.endpoint))),
            StoredPins::Pins(mut pins) => {
                let is_news = pins.see_endpoint(&self.endpoint);
                if pins.has_changed_endpoint() {
                    self.warn("its command, an argument or its URL has changed since it was approved", "");
                    self.write(&pins);
                }
                if is_news {
                    self.record(self.change_outcome(), None);
                }
                PinState::Pins(pins)
            }
            StoredPins::Damaged(reason) => {
                self.warn(
                    &format!("its pins cannot be read ({reason})"),
                    &format!(" --config {}", self.owner.config),
                );
                PinState::Damaged(reason)
            }
        };
        let mut now = self.state();
        let before = std::mem::replace(&mut *now, state);
        match (&before, &*now) {
            (PinState::Pins(before), PinState::Pins(pins)) => {
                for change in pins.approved_since(before) {
                    let item = match change {
                        Change::Endpoint => None,
                        Change::Item { list, name, .. } => Some((list, name)),
                    };
                    self.record("approved", item);
                }
            }
            (PinState::Damaged(_), _) => {}
            (PinState::Pins(_), PinState::Damaged(_)) => self.record("damaged", None),
        }
    }

    /// Why nothing of the server is used, if so: then it is not even started.
    pub fn refusal(&self) -> Option<Unapproved> {
        match (&*self.state(), self.mode) {
            (PinState::Damaged(_), Pin::Hold) => Some(Unapproved::DamagedPins),
            (PinState::Pins(pins), Pin::Hold) if pins.has_changed_endpoint() => Some(Unapproved::Command),
            _ => None,
        }
    }

    /// What clients get of a server that is not used: what was approved of it.
    pub(crate) fn catalog(&self) -> Catalog {
        let mut catalog = Catalog::default();
        let state = self.state();
        let PinState::Pins(pins) = &*state else { return catalog };
        let mut capabilities = Map::new();
        for list in [List::Tools, List::Prompts] {
            let items: Vec<&RawValue> =
                pins.approved(list).filter_map(|raw| serde_json::from_str(raw).ok()).collect();
            if !items.is_empty() {
                capabilities.insert(list.capability().to_owned(), json!({}));
                let mut draft = Draft::new(list);
                let cut = draft.add(&items).err();
                catalog.refresh(list, draft.finish(SystemTime::now(), None, cut));
                catalog.mark_stale(list, "the server is held until it is approved");
            }
        }
        catalog.capabilities = Some(capabilities.into());
        catalog
    }

    /// A list as the server offers it now becomes the list that clients get. What has changed is told.
    pub(super) fn review(self: &Arc<Self>, list: List, listing: Listing) -> Listing {
        if self.mode == Pin::Off {
            return listing;
        }
        self.see(list, |pins| pins.see(list, listing.items()));
        match &*self.state() {
            PinState::Pins(pins) => self.offered(pins, list, listing),
            PinState::Damaged(_) => listing,
        }
    }

    /// Tells and keeps what is new.
    fn see(self: &Arc<Self>, list: List, look: impl FnOnce(&mut Pins) -> Vec<String>) {
        let mut state = self.state();
        let PinState::Pins(pins) = &mut *state else { return };
        let before = pins.clone();
        let news = look(pins);
        let is_changed = *pins != before;
        drop(state);
        for name in news {
            let kind = if list == List::Tools { "tool" } else { "prompt" };
            self.warn(&format!("the {kind} \"{}\" has changed since it was approved", escape(&name)), "");
            self.record(self.change_outcome(), Some((list, &name)));
        }
        if is_changed && self.folder.is_some() {
            let me = self.clone();
            tokio::task::spawn_blocking(move || me.save());
        }
    }

    /// A session offers these items. Changes are told and kept; only the catalog tells that there are none.
    pub(super) fn note_changes(self: &Arc<Self>, list: List, items: &[Item]) {
        self.see(list, |pins| pins.note_changes(list, items));
    }

    /// Whether a session that offers this definition (its hash) must not be called by this name.
    pub(super) fn is_held(&self, list: List, name: &str, offered: Option<&str>) -> bool {
        match &*self.state() {
            PinState::Pins(pins) => pins.is_held(list, name, offered),
            PinState::Damaged(_) => true,
        }
    }

    /// Whether changes are held.
    pub(crate) fn holds(&self) -> bool {
        self.mode == Pin::Hold
    }

    /// What clients get of a catalog that is not fresh: from an earlier run, or from before something was approved.
    pub(crate) fn known(&self, mut catalog: Catalog) -> Catalog {
        if let PinState::Pins(pins) = &*self.state() {
            for list in [List::Tools, List::Prompts] {
                catalog.map_listing(list, |listing| self.offered(pins, list, listing));
            }
        }
        catalog
    }

    /// What has changed and is not approved, in a few words each.
    pub fn report(&self) -> Vec<String> {
        match &*self.state() {
            PinState::Pins(pins) => pins.changes(None).iter().map(words).collect(),
            PinState::Damaged(reason) => vec![format!("pins: {reason}")],
        }
    }

    fn offered(&self, pins: &Pins, list: List, listing: Listing) -> Listing {
        if self.mode != Pin::Hold {
            return listing;
        }
        listing.filter_map("could not be pinned", |item| match pins.offer(list, item) {
            Offer::AsIs => Some(item.clone()),
            Offer::Approved { raw, is_held } => Item::approved(list, raw, is_held),
            Offer::Nothing => None,
        })
    }

    /// Writes the newest pins.
    fn save(&self) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let pins = match &*self.state() {
            PinState::Pins(pins) => pins.clone(),
            PinState::Damaged(_) => return, // Only a person replaces them.
        };
        self.write(&pins);
    }

    fn write(&self, pins: &Pins) {
        if let Some(folder) = &self.folder
            && let Err(error) = folder.write(pins)
        {
            tracing::warn!(
                server = &*self.name,
                "cannot keep its pins: {error}; changes are noticed only while Regrow runs"
            );
        }
    }

    fn warn(&self, what: &str, option: &str) {
        let then = match self.mode {
            Pin::Hold => "; it is held until you approve it",
            Pin::Off | Pin::Warn => "",
        };
        let command = format!("regrow approve {}{}", self.name, escape(option));
        tracing::warn!(server = &*self.name, "{what}{then}; to see and approve the change: {command}");
    }

    fn change_outcome(&self) -> &'static str {
        if self.holds() { "held" } else { "changed" }
    }

    /// Tells the audit log what became of a tool, a prompt, or the server itself.
    fn record(&self, outcome: &'static str, item: Option<(List, &str)>) {
        let mut record = Record::pin(&self.owner.server, outcome);
        match item {
            Some((List::Prompts, name)) => record.prompt = Some(name.to_owned().into()),
            Some((_, name)) => record.tool = Some(name.to_owned().into()),
            None => {}
        }
        let _ = self.audit.write(&record); // No response waits for the line.
    }

    fn state(&self) -> MutexGuard<'_, PinState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn words(change: &Change<'_>) -> String {
    match change {
        Change::Endpoint => "command".to_owned(),
        Change::Item { list: List::Prompts, name, .. } => format!("prompt {}", escape(name)),
        Change::Item { name, .. } => format!("tool {}", escape(name)),
    }
}
