//! What several servers offer together, and what each thing is called there.
//!
//! A [`Directory`] is rebuilt from the servers' catalogs whenever one of them changes, and never changes itself.
//!
//! **Names.** With one server everything is called what it is called there. With several, tools and prompts are called
//! `server__tool`, of letters, digits, `_` and `-`, at most 64 long; other characters become `_`. What is too long is cut and ends in a
//! hash of both names. Where two would be called the same, *both* end in such a hash, so that nobody can take another's
//! name, and neither the order of the servers nor that of their answers matters.
//!
//! **Filters.** Tools that a server's [`ToolFilter`] does not offer are as if the server did not have them. It may also give tools other
//! names, and a prefix in place of `server__`; the same limits and hashes apply to these.
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
use crate::tool_filter::ToolFilter;
use merged_list::MergedList;
pub use merged_list::{BadCursor, PAGE_SIZE, Page};
pub(crate) use names::MAX_NAME;
use names::{BETWEEN, Thing};
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
    tools: ToolFilter,
}

impl Directory {
    /// What these servers offer together, in the order of the configuration. Their names must differ.
    pub fn of(servers: &[(&str, Arc<Catalog>)]) -> Directory {
        let all = ToolFilter::default();
        let servers: Vec<_> = servers.iter().map(|(name, catalog)| (*name, catalog.clone(), &all)).collect();
        Directory::filtered(&servers)
    }

    /// The same, with what each server's filter leaves of its tools.
    pub fn filtered(servers: &[(&str, Arc<Catalog>, &ToolFilter)]) -> Directory {
        let servers: Vec<_> = servers
            .iter()
            .map(|(name, catalog, tools)| ServerEntry {
                name: (*name).to_owned(),
                catalog: catalog.clone(),
                tools: (*tools).clone(),
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

    /// The only server, if there is only one: what is on no list is that server's, but for tools that a filter may keep from clients.
    pub fn only_server(&self) -> Option<&str> {
        match &self.servers[..] {
            [only] => Some(&only.name),
            _ => None,
        }
    }

    /// The only server, if it may be asked for what is not on this list.
    pub fn server_for_unlisted(&self, list: List) -> Option<&str> {
        let is_filtered = |entry: &ServerEntry| list == List::Tools && !entry.tools.is_empty();
        self.only_server().filter(|_| !self.servers.iter().any(is_filtered))
    }

    /// A server that has not told yet what is on this list may have what is named after it: it is asked itself, by the name that it
    /// knows. None where several may be meant.
    pub fn unlisted<'a>(&'a self, list: List, name: &'a str) -> Option<(&'a str, &'a str)> {
        let is_only = self.servers.len() == 1;
        let untold = self.servers.iter().filter(|entry| !entry.catalog.has_told(list));
        let mut found = untold.filter_map(|entry| {
            let original = match list {
                List::Tools => entry.tools.original(entry.without_prefix(name, is_only)?)?,
                _ if is_only => name,
                _ => name.strip_prefix(&*entry.name)?.strip_prefix(BETWEEN)?,
            };
            Some((entry.name.as_str(), original))
        });
        found.next().filter(|_| found.next().is_none())
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
    /// What clients get of this list, each with its place in the server's list.
    fn offered(&self, list: List) -> impl Iterator<Item = (usize, &Item)> {
        let items =
            self.catalog.listing(list).into_iter().flat_map(|listing| listing.items().iter().enumerate());
        items.filter(move |(_, item)| list != List::Tools || self.tools.offers(item))
    }

    /// The tool with the name that it should have.
    fn tool<'a>(&'a self, key: &'a str, is_only: bool) -> Thing<'a> {
        let name = self.tools.renamed(key);
        let name = match &self.tools.prefix {
            Some(prefix) => format!("{prefix}{name}"),
            None if is_only => name.to_owned(),
            None => format!("{}{BETWEEN}{name}", self.name),
        };
        Thing::named(&self.name, key, name)
    }

    /// The reverse, as far as it can be told from the name alone.
    fn without_prefix<'a>(&self, name: &'a str, is_only: bool) -> Option<&'a str> {
        match &self.tools.prefix {
            Some(prefix) => name.strip_prefix(&**prefix),
            None if is_only => Some(name),
            None => name.strip_prefix(&*self.name)?.strip_prefix(BETWEEN),
        }
    }

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
    let items: Vec<_> = servers
        .iter()
        .enumerate()
        .flat_map(|(server, entry)| entry.offered(list).map(move |(n, item)| ((server, n), item)))
        .collect();
    let is_only = servers.len() == 1;
    let keeps_names = is_only && !(list == List::Tools && servers[0].tools.renames());
    let pairs = || items.iter().map(|((server, _), item)| (&servers[*server], item.key()));
    let uris = || pairs().map(|(entry, key)| (entry.name.as_str(), key)).collect::<Vec<_>>();
    let names = match list {
        _ if keeps_names => pairs().map(|(_, key)| Some(Cow::Borrowed(key))).collect(),
        List::Tools => {
            names::together(&pairs().map(|(entry, key)| entry.tool(key, is_only)).collect::<Vec<_>>())
        }
        List::Prompts => {
            names::together(&pairs().map(|(entry, key)| Thing::of(&entry.name, key)).collect::<Vec<_>>())
        }
        List::Resources => uris::together(&uris(), uris::apart),
        List::Templates => uris::together(&uris(), uris::template_apart),
    };
    MergedList::of(items.iter().zip(names).filter_map(|((place, item), name)| Some((*place, *item, name?))))
}

#[cfg(test)]
mod tests;
