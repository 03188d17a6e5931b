//! What several servers offer together, and what each thing is called there.
//!
//! A [`Directory`] is rebuilt from the servers' catalogs whenever one of them changes, and never changes itself.
//!
//! **Names.** With one server everything is called what it is called there. With several, tools and prompts are called
//! `server__tool`, of letters, digits, `_` and `-`, at most 64 long; other characters become `_`. What is too long is cut and ends in a
//! hash of both names. Where two would be called the same, *both* end in such a hash, so that nobody can take another's
//! name, and neither the order of the servers nor that of their answers matters.
//!
//! **Resources** keep their URIs, so that links inside results work. Where several servers list the same URI, each of them is
//! `regrow://SERVER/PERCENT-ENCODED-URI`. Templates likewise, but what follows the server stays as it is, since clients fill it in. URIs
//! that begin with `regrow:` are ours alone. A server answers for a URI if it alone lists it; if nobody does, if it returned it in a
//! result, or if its template alone matches. No order decides, and a template for everything takes nothing.

mod merged_list;
mod names;
mod template;
mod together;
mod uris;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use regrow::transport::http::MirroredArguments;
use regrow_protocol::list::List;

use crate::catalog::{Catalog, Item};
use merged_list::MergedList;
pub use merged_list::{BadCursor, PAGE_SIZE, Page};
use template::{Template, budget};

/// What several servers offer together.
#[derive(Debug)]
pub struct Directory {
    servers: Vec<ServerEntry>,
    /// Where each server stands, by its name.
    places: HashMap<String, usize>,
    lists: [MergedList; 4],
    /// URIs of resources that are listed, but not under that name: several servers have them.
    renamed: HashSet<String>,
}

#[derive(Debug)]
struct ServerEntry {
    name: String,
    catalog: Arc<Catalog>,
    templates: Vec<Template>,
}

impl Directory {
    /// What these servers offer together, in the order of the configuration. Their names must differ.
    pub fn of(servers: &[(&str, Arc<Catalog>)]) -> Directory {
        let servers: Vec<_> = servers
            .iter()
            .map(|(name, catalog)| ServerEntry {
                name: (*name).to_owned(),
                catalog: catalog.clone(),
                templates: keys(catalog, List::Templates).filter_map(Template::parse).collect(),
            })
            .collect();
        let lists = List::ALL.map(|list| merged_list(list, &servers));
        let mut places = HashMap::with_capacity(servers.len());
        let mut renamed = HashSet::new();
        for (place, entry) in servers.iter().enumerate() {
            places.entry(entry.name.clone()).or_insert(place);
            let uris = keys(&entry.catalog, List::Resources);
            let is_renamed = |uri: &&str| lists[List::Resources as usize].find(uri).is_none();
            renamed.extend(uris.filter(is_renamed).map(str::to_owned));
        }
        Directory { servers, places, lists, renamed }
    }

    /// The name of the server at this place.
    pub fn server(&self, place: usize) -> &str {
        self.servers.get(place).map_or("", |entry| &entry.name)
    }

    /// The only server, if there is only one: then nothing is renamed, and what is on no list is that server's.
    pub fn only_server(&self) -> Option<&str> {
        match &self.servers[..] {
            [only] => Some(&only.name),
            _ => None,
        }
    }

    /// A server that has not told yet what is on this list may have what is named after it: it is asked itself, by the name that it
    /// knows.
    pub fn unlisted<'a>(&self, list: List, name: &'a str) -> Option<(&str, &'a str)> {
        let (prefix, original) = name.split_once("__")?;
        let entry = &self.servers[*self.places.get(prefix)?];
        (!entry.catalog.has_told(list)).then_some((entry.name.as_str(), original))
    }

    /// The server whose tool is called so here, by its place; and what that calls it.
    pub fn tool(&self, name: &str) -> Option<(usize, &str)> {
        self.original(List::Tools, name)
    }

    /// What is called so here: the place of its server, and what that says of it.
    pub(crate) fn item(&self, list: List, name: &str) -> Option<(usize, &Item)> {
        let (server, item) = self.lists[list as usize].find(name)?;
        let listing = self.servers[server].catalog.listing(list)?;
        Some((server, listing.items().get(item)?))
    }

    /// The arguments of this tool that a client must also send in headers; none if no server lists it.
    pub fn mirrored(&self, tool: &str) -> Option<&MirroredArguments> {
        self.item(List::Tools, tool).map(|(_, item)| item.mirrored())
    }

    /// The same for a prompt.
    pub fn prompt(&self, name: &str) -> Option<(usize, &str)> {
        self.original(List::Prompts, name)
    }

    /// The server that answers for this resource or template, and what that calls it. `returned` tells which servers have returned
    /// the URI in a result.
    pub fn resource<'a>(
        &'a self,
        uri: &'a str,
        returned: impl Fn(&str) -> bool,
    ) -> Option<(usize, Cow<'a, str>)> {
        let listed = self.original(List::Resources, uri).or_else(|| self.original(List::Templates, uri));
        let named = listed.map(|(server, uri)| (server, Cow::Borrowed(uri))).or_else(|| self.named(uri));
        // One that several list is none's. What nobody lists is the only server's that has returned it, or has a template for it.
        named.or_else(|| {
            let server = match self.renamed.contains(uri) {
                true => self.the_only(|entry| returned(&entry.name)),
                false => self.the_only(|entry| returned(&entry.name) || entry.may_have(uri)),
            };
            server.map(|server| (server, Cow::Borrowed(uri)))
        })
    }

    /// A part of a list: what follows this cursor, or the first. [`PAGE_SIZE`] items are a good size: many clients
    /// never ask for a second page.
    pub fn page(&self, list: List, cursor: Option<&str>, size: usize) -> Result<Page, BadCursor> {
        self.lists[list as usize].page(cursor, size)
    }

    /// How many items a list has.
    pub fn count(&self, list: List) -> usize {
        self.lists[list as usize].count()
    }

    /// The same as long as what clients see of the list is, in whatever order.
    pub fn revision(&self, list: List) -> u64 {
        self.lists[list as usize].revision()
    }

    fn original(&self, list: List, name: &str) -> Option<(usize, &str)> {
        self.item(list, name).map(|(server, item)| (server, item.key()))
    }

    /// A URI that names its server. It need not be listed: the server it was named apart from may have gone.
    fn named<'a>(&self, uri: &'a str) -> Option<(usize, Cow<'a, str>)> {
        if self.servers.len() < 2 {
            return None;
        }
        let (name, original) = uris::split(uri)?;
        Some((*self.places.get(&*name)?, original))
    }

    /// The only server of which this is true, if it is one.
    fn the_only(&self, is_so: impl Fn(&ServerEntry) -> bool) -> Option<usize> {
        let mut found =
            self.servers.iter().enumerate().filter(|(_, entry)| is_so(entry)).map(|(server, _)| server);
        found.next().filter(|_| found.next().is_none())
    }
}

impl ServerEntry {
    /// Whether a URI that nobody lists may come from one of its templates. One for everything claims nothing.
    fn may_have(&self, uri: &str) -> bool {
        let mut steps = budget();
        let claims = |template: &Template| !template.is_catch_all() && template.matches(uri, &mut steps);
        self.templates.iter().any(claims)
    }
}

fn keys(catalog: &Catalog, list: List) -> impl Iterator<Item = &str> {
    catalog.listing(list).into_iter().flat_map(|listing| listing.items()).map(|item| item.key())
}

/// One list of all servers, under the names that things have here.
fn merged_list(list: List, servers: &[ServerEntry]) -> MergedList {
    let pairs: Vec<(&str, &str)> = servers
        .iter()
        .flat_map(|entry| keys(&entry.catalog, list).map(|key| (entry.name.as_str(), key)))
        .collect();
    let names = match list {
        _ if servers.len() == 1 => pairs.iter().map(|(_, key)| Some(Cow::Borrowed(*key))).collect(),
        List::Tools | List::Prompts => names::together(&pairs),
        List::Resources => uris::together(&pairs, uris::apart),
        List::Templates => uris::together(&pairs, uris::template_apart),
    };
    let listings =
        servers.iter().enumerate().filter_map(|(n, entry)| Some((n, entry.catalog.listing(list)?)));
    let items = listings.flat_map(|(server, listing)| {
        listing.items().iter().enumerate().map(move |(n, item)| ((server, n), item))
    });
    MergedList::of(items.zip(names).filter_map(|((place, item), name)| Some((place, item, name?))))
}

#[cfg(test)]
mod tests;
