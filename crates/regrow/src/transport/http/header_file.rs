//! Credentials in a file of `Name: value` lines, which somebody else keeps fresh.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderName, HeaderValue};

use super::SetupError;
use super::credential::{Credential, Rejected, secret_header, spoken};
use crate::mask::Mask;
use crate::transport::BoxFuture;

/// Headers from a file. It is read again when it has changed, and when the server refuses what it held.
#[derive(Clone)]
pub struct HeaderFile {
    path: PathBuf,
    held: Arc<Mutex<CachedHeaders>>,
}

struct CachedHeaders {
    headers: Vec<(HeaderName, HeaderValue)>,
    stamp: Option<Stamp>,
    looked: Instant,
    mask: Mask,
}

/// By what a change is noticed without reading.
type Stamp = (SystemTime, u64);

const LOOK_EVERY: Duration = Duration::from_secs(1);
const MAX_BYTES: u64 = 64 * 1024;

impl HeaderFile {
    /// Reads the file. Blank lines and lines that start with `#` are passed over.
    pub fn new(path: impl Into<PathBuf>) -> Result<HeaderFile, SetupError> {
        let path = path.into();
        let stamp = stamp(&path);
        let headers = read(&path)?;
        let held = CachedHeaders { headers, stamp, looked: Instant::now(), mask: Mask::default() };
        Ok(HeaderFile { path, held: Arc::new(Mutex::new(held)) })
    }

    /// Reads it again. A file that cannot be read now, perhaps being written, leaves things as they are.
    fn reload(&self) {
        let stamp = stamp(&self.path);
        match read(&self.path) {
            Ok(headers) => {
                let mut held = self.held();
                let values = headers.iter().filter_map(|(_, value)| value.to_str().ok());
                values.flat_map(spoken).for_each(|secret| held.mask.add(&secret));
                held.headers = headers;
                held.stamp = stamp;
            }
            Err(error) => tracing::warn!(%error, "keeping the previous credentials"),
        }
    }

    fn reload_if_touched(&self) {
        {
            let mut held = self.held();
            if held.looked.elapsed() < LOOK_EVERY {
                return;
            }
            held.looked = Instant::now();
            if stamp(&self.path) == held.stamp {
                return;
            }
        }
        self.reload();
    }

    fn held(&self) -> MutexGuard<'_, CachedHeaders> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Off the threads that others wait for: the file may lie on a slow disk.
    async fn reload_elsewhere(&self) {
        let file = self.clone();
        // It does not panic; and if it did, what is held stays.
        let _ = tokio::task::spawn_blocking(move || file.reload()).await;
    }
}

impl Credential for HeaderFile {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        self.reload_if_touched();
        self.held().headers.clone()
    }

    fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
        let file = self.clone();
        Box::pin(async move {
            file.reload_elsewhere().await;
            file.held().headers != rejected.headers
        })
    }

    fn changed(&self) -> BoxFuture<()> {
        let file = self.clone();
        let before = file.held().headers.clone();
        Box::pin(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                file.reload_elsewhere().await;
                if file.held().headers != before {
                    return;
                }
            }
        })
    }

    fn mask_later(&self, mask: Mask) {
        self.held().mask = mask;
    }
}

impl fmt::Debug for HeaderFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderFile").field("path", &self.path).finish_non_exhaustive()
    }
}

fn stamp(path: &PathBuf) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(path: &PathBuf) -> Result<Vec<(HeaderName, HeaderValue)>, SetupError> {
    let unusable =
        |reason: String| SetupError::File { path: path.display().to_string(), reason: reason.to_owned() };
    let mut text = String::new();
    let file = File::open(path).map_err(|error| unusable(error.to_string()))?;
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| unusable(error.to_string()))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(unusable("it is larger than 64 KiB".into()));
    }
    let mut headers = vec![];
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // The line itself is not quoted: it may be a secret.
        let wrong = |what: &str| unusable(format!("line {}: {what}", number + 1));
        let (name, value) = line.split_once(':').ok_or_else(|| wrong("it is not `Name: value`"))?;
        let header = secret_header(name.trim(), value.trim().as_bytes());
        headers.push(header.map_err(|_| wrong("it cannot be sent as a header"))?);
    }
    Ok(headers)
}
