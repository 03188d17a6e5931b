//! Secrets that we know, taken out of every text that leaves us.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use regrow_protocol::text::escape_except_tabs;

/// The values that must not be seen, in every form in which they may be written. Clones share them.
#[derive(Clone, Default)]
pub struct Mask(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    /// Those of the start. None if there are none.
    start: Option<Arc<Forms>>,
    /// Those that were added, oldest first.
    added: VecDeque<BTreeSet<String>>,
    /// All of them.
    all: Option<Arc<Forms>>,
}

struct Forms {
    /// In order.
    texts: Vec<String>,
    /// None if there are too many for it, which would be gigabytes: then whole texts are masked.
    search: Option<AhoCorasick>,
}

/// Shorter values are not masked: they would take ordinary words out of texts.
const SHORTEST: usize = 6;
/// Stands at the end of a line that was too long.
pub(crate) const CUT: &str = " ... (cut)";
const MASKED: &str = "***";
/// Values that are added later are masked until this many more were added: a token is replaced every few minutes, for months.
const MAX_ADDED: usize = 64;

impl Mask {
    /// Masks these values, those of at least six characters: also each line of one that has several, passwords in addresses, and however they
    /// are encoded (as in JSON, as in a URL, in Base64).
    pub fn new(values: impl IntoIterator<Item = String>) -> Mask {
        let mut forms = BTreeSet::new();
        values.into_iter().for_each(|value| all_forms(&value, &mut forms));
        let start = Forms::new(forms);
        Mask(Arc::new(RwLock::new(Known { all: start.clone(), added: VecDeque::new(), start })))
    }

    /// Masks this value, too, from now on and in all clones. Of the values that were added, the last 64 are masked.
    pub fn add(&self, value: &str) {
        let mut added = BTreeSet::new();
        all_forms(value, &mut added);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.added.contains(&added) {
            return;
        }
        if known.added.len() == MAX_ADDED {
            known.added.pop_front();
        }
        known.added.push_back(added);
        let start = known.start.iter().flat_map(|forms| &forms.texts);
        known.all = Forms::new(start.chain(known.added.iter().flatten()).cloned().collect());
    }

    fn known(&self) -> Option<Arc<Forms>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).all.clone()
    }

    /// The secrets of these variables: the values of those whose names sound like one, and passwords in the addresses of others.
    pub fn secrets_of(variables: impl IntoIterator<Item = (String, String)>) -> impl Iterator<Item = String> {
        variables.into_iter().flat_map(|(name, value)| match sounds_secret(&name) {
            true => vec![value],
            false => passwords(&value).collect(),
        })
    }

    /// The text without the secrets.
    pub fn apply(&self, text: &str) -> String {
        match text.strip_suffix(CUT) {
            Some(text) => self.apply_to_beginning(text) + CUT,
            None => self.replace(text),
        }
    }

    /// The same for a text that may go on: a secret may have begun at its end.
    pub(crate) fn apply_to_beginning(&self, text: &str) -> String {
        let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER); // Half a character.
        let known = self.known();
        let Some((forms, search)) = known.as_ref().and_then(|forms| Some((forms, forms.search.as_ref()?)))
        else {
            return self.replace(text);
        };
        let Some(begun) = forms.begun_at_end(text) else { return self.replace(text) };
        // Another secret may reach into this one.
        let across = search.find_iter(text).find(|found| found.start() < begun && begun < found.end());
        let end = across.map_or(begun, |found| found.start());
        self.replace(&text[..end]) + MASKED
    }

    fn replace(&self, text: &str) -> String {
        match self.known() {
            None => text.to_owned(),
            Some(forms) => match &forms.search {
                None => MASKED.to_owned(),
                Some(search) => search.replace_all(text, &vec![MASKED; forms.texts.len()]),
            },
        }
    }
}

impl Forms {
    /// None if there are none.
    fn new(forms: BTreeSet<String>) -> Option<Arc<Forms>> {
        if forms.is_empty() {
            return None;
        }
        let texts: Vec<String> = forms.into_iter().collect();
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA)) // The smallest: a key may have many lines.
            .build(&texts);
        Some(Arc::new(Forms { texts, search: search.ok() }))
    }

    /// Where the longest beginning of a form starts with which this text ends.
    fn begun_at_end(&self, text: &str) -> Option<usize> {
        let is_beginning = |end: &str| {
            let next = self.texts.partition_point(|form| form.as_str() < end); // They are sorted.
            end.len() >= SHORTEST && self.texts.get(next).is_some_and(|form| form.starts_with(end))
        };
        text.char_indices().map(|(start, _)| start).find(|start| is_beginning(&text[*start..]))
    }
}

/// Each form in which this value, its lines and the passwords in it may be written.
fn all_forms(value: &str, forms: &mut BTreeSet<String>) {
    let passwords: Vec<String> = passwords(value).collect();
    let lines = value.lines().map(str::to_owned);
    for part in lines.chain([value.to_owned()]).chain(passwords) {
        forms_of(part.trim(), forms);
    }
    forms_in_lines(value, forms);
}

/// Each form in which this may be written.
fn forms_of(secret: &str, forms: &mut BTreeSet<String>) {
    if secret.len() < SHORTEST {
        return;
    }
    let quoted = serde_json::Value::from(secret).to_string();
    let in_json = quoted.trim_matches('"');
    let mut written = vec![secret.to_owned(), in_json.to_owned(), in_json.replace('/', "\\/")];
    for upper_case in [true, false] {
        written.push(in_ascii_json(in_json, upper_case));
        // What is left as it is: nothing, as in a path, as JavaScript does it, as in a form.
        written.extend(["", "/", "!'()*", "*"].map(|plain| percent_encoded(secret, plain, upper_case)));
        written.push(percent_encoded(secret, "* ", upper_case).replace(' ', "+"));
    }
    // Lines of a server are escaped before they are masked.
    forms.extend(written.iter().map(|form| escape_except_tabs(form)));
    forms.extend(written);
    // What stands before it shifts it in Base64. What is the same whatever stands around it is masked.
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            let inner = &encoded[first..last];
            if inner.len() >= SHORTEST {
                forms.insert(inner.to_owned());
            }
        }
    }
}

/// The Base64 of a long value, in lines as tools wrap it.
fn forms_in_lines(value: &str, forms: &mut BTreeSet<String>) {
    for encoded in [STANDARD_NO_PAD.encode(value), URL_SAFE_NO_PAD.encode(value)] {
        for width in [64, 76] {
            let lines = encoded.as_bytes().chunks(width).map(String::from_utf8_lossy);
            let lines = lines.filter(|line| encoded.len() > width && line.len() >= SHORTEST);
            forms.extend(lines.map(String::from));
        }
    }
}

/// With everything beyond ASCII as `\uXXXX`, as some languages write JSON.
fn in_ascii_json(in_json: &str, upper_case: bool) -> String {
    let mut ascii = String::new();
    for character in in_json.chars() {
        if character.is_ascii() {
            ascii.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = match upper_case {
                true => write!(ascii, "\\u{unit:04X}"),
                false => write!(ascii, "\\u{unit:04x}"),
            };
        }
    }
    ascii
}

fn percent_encoded(secret: &str, plain: &str, upper_case: bool) -> String {
    let mut encoded = String::new();
    for byte in secret.bytes() {
        // Writing to a string cannot fail.
        let _ = match byte {
            byte if byte.is_ascii_alphanumeric()
                || b"-._~".contains(&byte)
                || plain.as_bytes().contains(&byte) =>
            {
                encoded.write_char(byte.into())
            }
            byte if upper_case => write!(encoded, "%{byte:02X}"),
            byte => write!(encoded, "%{byte:02x}"),
        };
    }
    encoded
}

/// Passwords in an address (`scheme://user:password@host`, `user:password@tcp(host)`) or a list of settings (`host=a password=b`).
fn passwords(value: &str) -> impl Iterator<Item = String> {
    // Each address, if there are several; or all of it, where it has no scheme.
    let addresses = value.split("://").skip(usize::from(value.contains("://")));
    let ends: &[char] = if value.contains("://") { &['/', '?', '#', ','] } else { &[] };
    let authorities = addresses.map(|address| address.split(ends).next().unwrap_or_default());
    let in_addresses = authorities
        .filter_map(|authority| authority.rsplit_once('@')?.0.split_once(':').map(|(_, password)| password));
    let settings = value.split([' ', ';', '&', '?', '\n']).filter_map(|setting| setting.split_once('='));
    let in_settings = settings.filter(|(name, _)| {
        ["password", "passwd", "pwd", "token", "secret", "api_key", "apikey", "access_token"]
            .iter()
            .any(|word| name.trim().eq_ignore_ascii_case(word))
    });
    let found: Vec<String> = in_addresses
        .chain(in_settings.map(|(_, value)| value.trim().trim_matches(['\'', '"'])))
        .map(str::to_owned)
        .collect();
    let decoded: Vec<String> = found.iter().filter_map(|password| percent_decoded(password)).collect();
    found.into_iter().chain(decoded)
}

/// What it says, if something in it is percent-encoded.
fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    let mut is_encoded = false;
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
        is_encoded = true;
    }
    is_encoded.then(|| String::from_utf8(bytes).ok()).flatten()
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({} forms)", self.known().map_or(0, |forms| forms.texts.len()))
    }
}

fn sounds_secret(name: &str) -> bool {
    const WORDS: [&str; 9] =
        ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE", "DATABASE_URL"];
    let name = name.to_ascii_uppercase();
    WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(secret: &str) -> Mask {
        Mask::new([secret.to_owned()])
    }

    #[test]
    fn a_secret_of_the_environment_is_in_no_text() {
        let mask = Mask::new(Mask::secrets_of([
            ("GITHUB_TOKEN".into(), "ghp_123456".into()),
            ("HOME".into(), "/home/ann".into()),
            ("API_KEY".into(), "ghp_123456789".into()),
        ]));
        assert_eq!(mask.apply("bad ghp_123456789, ghp_123456 in /home/ann"), "bad ***, *** in /home/ann");
        assert!(!format!("{mask:?}").contains("ghp"));
    }

    #[test]
    fn each_line_of_a_secret_is_one() {
        let key =
            "-----BEGIN PRIVATE KEY-----\r\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n";
        let mask = mask(key);
        for line in key.lines() {
            assert_eq!(mask.apply(&format!("x {line} y")), "x *** y");
        }
        assert_eq!(mask.apply(&format!("{key:?}").replace("\\r", "")).matches("MII").count(), 0);
        assert_eq!(mask.apply(key.trim()), "***");
    }

    #[test]
    fn a_secret_is_masked_however_it_is_encoded() {
        let secret = "p/ss \"wörd\" +1?";
        let mask = mask(secret);
        let json = serde_json::to_string(secret).unwrap();
        for written in [
            secret.to_owned(),
            json[1..json.len() - 1].to_owned(),
            "p%2Fss%20%22w%C3%B6rd%22%20%2B1%3F".to_owned(),
            "p%2fss%20%22w%c3%b6rd%22%20%2b1%3f".to_owned(),
            "p/ss%20%22w%C3%B6rd%22%20%2B1%3F".to_owned(), // In a path.
            "p%2Fss+%22w%C3%B6rd%22+%2B1%3F".to_owned(),   // In a form.
            r#"p/ss \"w\u00f6rd\" +1?"#.to_owned(),
            r#"p\/ss \"w\u00F6rd\" +1?"#.replace("\\/", "/"),
        ] {
            assert_eq!(mask.apply(&format!("<{written}>")), "<***>");
        }
        for before in ["", "a", "ab", "user:"] {
            for after in ["", "z", "yz"] {
                let encoded = STANDARD_NO_PAD.encode(format!("{before}{secret}{after}"));
                let masked = mask.apply(&encoded);
                assert!(masked.contains("***") && masked.len() < 14, "{before} {after}: {masked}");
            }
        }
    }

    #[test]
    fn a_password_inside_an_address_is_a_secret() {
        for (value, password) in [
            ("postgres://ann:hunter2!@db:5432/x", "hunter2!"),
            ("redis://:hunter2!@[::1]:6379", "hunter2!"),
            ("ann:hunter2!@tcp(db)/x", "hunter2!"),
            ("host=db user=ann password='hunter2!'", "hunter2!"),
            ("Server=db;Password=hunter2!;", "hunter2!"),
            ("https://h/?access_token=hunter2!&x=1", "hunter2!"),
            ("amqp://ann:hun%74er2%21@db", "hunter2!"),
            ("redis://a,redis://:hunter2!@b/1,redis://c", "hunter2!"),
            ("mongodb://ann:hunter2!@a,b,c/x", "hunter2!"),
        ] {
            let mask = Mask::new(Mask::secrets_of([("BROKER".to_owned(), value.to_owned())]));
            assert_eq!(
                mask.apply(&format!("login with {password} failed")),
                "login with *** failed",
                "{value}"
            );
            assert!(mask.apply(value).contains("***"), "{value}");
        }
        let nothing =
            Mask::new(Mask::secrets_of([("EDITOR".to_owned(), "vi a:b x@y https://h/p?q=1".to_owned())]));
        assert_eq!(nothing.apply("vi a:b x@y"), "vi a:b x@y");
    }

    #[test]
    fn a_secret_that_a_cut_line_begins_is_masked() {
        let mask = mask("ghp_123456789");
        assert_eq!(mask.apply("key ghp_12345 ... (cut)"), "key *** ... (cut)");
        assert_eq!(mask.apply("key ghp_12345"), "key ghp_12345", "that is another word");
        assert_eq!(
            mask.apply("key ghp_1 ... (cut)"),
            "key ghp_1 ... (cut)",
            "too short to be told from others"
        );
        // A line may also be cut within a character.
        let mask = Mask::new(["sécrèt-wörd".to_owned()]);
        assert_eq!(mask.apply("key sécrèt-w\u{fffd} ... (cut)"), "key *** ... (cut)");
        assert_eq!(mask.apply_to_beginning("key sécrèt-w"), "key ***");
    }

    #[test]
    fn what_is_added_later_is_masked_in_every_clone_with_what_was_known() {
        let mask = mask("hunter2-first");
        let clone = mask.clone();
        mask.add("hunter2-later");
        assert_eq!(clone.apply("hunter2-first hunter2-later"), "*** ***");
        let tokens = |number| format!("token-number-{number}");
        (0..MAX_ADDED).for_each(|number| clone.add(&tokens(number)));
        assert_eq!(mask.apply("hunter2-first hunter2-later"), "*** hunter2-later", "the oldest is forgotten");
        assert!((0..MAX_ADDED).all(|number| mask.apply(&tokens(number)).starts_with("***")));
        let empty = Mask::default();
        empty.add("hunter2-later");
        assert_eq!(empty.apply("hunter2-later"), "***");
    }

    #[test]
    fn a_short_value_masks_nothing() {
        assert_eq!(mask("true").apply("true enough"), "true enough");
        assert_eq!(mask("a\nbc\n").apply("a bc"), "a bc");
    }

    #[test]
    fn random_secrets_in_random_texts_are_never_seen() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let secret: String = (0..random.usize(6..40)).map(|_| random.char(' '..'\u{2ff}')).collect();
            let secret = secret.trim();
            if secret.len() < SHORTEST || secret.lines().count() != 1 {
                continue;
            }
            let mask = mask(secret);
            let around: String = (0..random.usize(..5)).map(|_| random.alphanumeric()).collect();
            let json = serde_json::to_string(&format!("{around}{secret}{around}")).unwrap();
            for text in [format!("{around}{secret}"), escape_except_tabs(&format!("{secret}{around}")), json]
            {
                let masked = mask.apply(&text);
                assert!(
                    !masked.contains(secret) && masked.contains(MASKED),
                    "{secret:?} in {text:?}: {masked:?}"
                );
            }
        }
    }
}
