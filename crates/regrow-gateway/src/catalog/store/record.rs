//! What a file of the store holds: what a server said, in its own words.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use regrow_protocol::list::List;
use regrow_protocol::version::Era;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::listing::Draft;
use super::super::{Catalog, MAX_INSTRUCTIONS};

/// Files of another are not understood.
const VERSION: u32 = 1;
const RECALLED: &str = "cached from an earlier run; the server was not asked yet";

#[derive(Serialize, Deserialize)]
struct CatalogRecord<'a> {
    version: u32,
    modern: Option<bool>,
    server_info: Option<Value>,
    capabilities: Option<Value>,
    instructions: Option<String>,
    #[serde(borrow)]
    lists: Vec<StoredList<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StoredList<'a> {
    method: String,
    /// In seconds since 1970.
    fetched: u64,
    ttl_ms: Option<u64>,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

pub(super) fn write(catalog: &Catalog) -> Vec<u8> {
    let listings = List::ALL.into_iter().filter_map(|list| Some((list, catalog.listing(list)?)));
    let lists = listings.map(|(list, listing)| StoredList {
        method: list.method().to_owned(),
        fetched: listing.fetched.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        ttl_ms: listing.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
        items: listing.items().iter().map(|item| item.raw()).collect(),
    });
    let record = CatalogRecord {
        version: VERSION,
        modern: (catalog.era != Era::Auto).then_some(catalog.era == Era::Modern),
        server_info: catalog.server_info.clone(),
        capabilities: catalog.capabilities.clone(),
        instructions: catalog.instructions.clone(),
        lists: lists.collect(),
    };
    serde_json::to_vec(&record).expect("values, text and numbers can be written")
}

/// None where it is not one of ours.
pub(super) fn read(bytes: &[u8]) -> Option<Catalog> {
    let record: CatalogRecord<'_> =
        serde_json::from_slice(bytes).ok().filter(|record: &CatalogRecord<'_>| record.version == VERSION)?;
    let mut catalog = Catalog {
        server_info: record.server_info,
        capabilities: record.capabilities,
        instructions: record.instructions.filter(|text| text.len() <= MAX_INSTRUCTIONS),
        era: match record.modern {
            None => Era::Auto,
            Some(true) => Era::Modern,
            Some(false) => Era::Legacy,
        },
        ..Catalog::default()
    };
    for kept in record.lists {
        let Some(list) = List::by_method(&kept.method) else { continue };
        let mut draft = Draft::new(list);
        let cut = draft.add(&kept.items).err();
        let fetched = UNIX_EPOCH.checked_add(Duration::from_secs(kept.fetched));
        let ttl = kept.ttl_ms.map(Duration::from_millis);
        catalog.refresh(list, draft.finish(fetched.unwrap_or(SystemTime::UNIX_EPOCH), ttl, cut));
        catalog.mark_stale(list, RECALLED);
    }
    Some(catalog)
}
