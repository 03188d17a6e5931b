//! Files of variables (`envFile`): a line each, `NAME=value`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::content::Content;
use super::message::printable;
use super::secret::Secret;

const MAX_BYTES: u64 = 1 << 20;

/// The variables in the file; or what is wrong with it, which quotes no line of it.
pub(super) fn read(path: &Path, content: &mut Content) -> Result<BTreeMap<String, Secret>, String> {
    let shown = printable(&path.to_string_lossy());
    let mut text = String::new();
    let file = std::fs::File::open(path);
    let length = file
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| format!("the file {shown} cannot be read: {error}; name another one"))?;
    if length as u64 > MAX_BYTES {
        return Err(format!("the file {shown} is larger than 1 MiB; name a file of variables"));
    }
    content.add(text.as_bytes());
    let mut variables = BTreeMap::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        match variable(line) {
            Line::Variable(name, value) => drop(variables.insert(name.to_owned(), Secret::new(value))),
            Line::Nothing => {}
            Line::Wrong => {
                return Err(format!("line {} of {shown} is not NAME=value", number + 1));
            }
        }
    }
    Ok(variables)
}

enum Line<'a> {
    Variable(&'a str, String),
    Nothing,
    Wrong,
}

fn variable(line: &str) -> Line<'_> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Line::Nothing;
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    let Some((name, value)) = line.split_once('=') else { return Line::Wrong };
    let name = name.trim();
    if name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || letter == '\0') {
        return Line::Wrong;
    }
    match unquoted(value.trim()) {
        Some(value) if !value.contains('\0') => Line::Variable(name, value),
        _ => Line::Wrong,
    }
}

/// `'as it is'`, `"with \n and \""`, or `plain # and a remark`.
fn unquoted(value: &str) -> Option<String> {
    match value.chars().next() {
        Some('\'') => value[1..].split_once('\'').map(|(inside, _)| inside.to_owned()),
        Some('"') => {
            let mut inside = String::new();
            let mut letters = value[1..].chars();
            loop {
                match letters.next()? {
                    '"' => return Some(inside),
                    '\\' => inside.push(match letters.next()? {
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        other => other,
                    }),
                    other => inside.push(other),
                }
            }
        }
        _ => Some(value.find(" #").map_or(value, |remark| value[..remark].trim_end()).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_shells_and_editors_write_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        let text = "# keys\r\n\nexport A=one\r\nB = two words # a remark\nC='a # \"b\"'\nD=\"x\\n\\\"y\\\"\"\nE=\nF=a=b#c\n";
        std::fs::write(&path, text).unwrap();
        let read = read(&path, &mut Content::default()).unwrap();
        let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
        let expected = [
            ("A", "one"),
            ("B", "two words"),
            ("C", "a # \"b\""),
            ("D", "x\n\"y\""),
            ("E", ""),
            ("F", "a=b#c"),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn a_wrong_line_is_numbered_and_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        for wrong in ["s3cr3t", "=s3cr3t", "A=\"s3cr3t", "A B=s3cr3t"] {
            std::fs::write(&path, format!("OK=1\n{wrong}\n")).unwrap();
            let problem = read(&path, &mut Content::default()).unwrap_err();
            assert!(problem.contains("line 2 of ") && !problem.contains("s3cr3t"), "{problem}");
        }
        let missing = read(&folder.path().join("none"), &mut Content::default()).unwrap_err();
        assert!(missing.contains("cannot be read"), "{missing}");
    }
}
