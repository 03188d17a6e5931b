//! Opens an address in the person's browser.

use std::io;
use std::process::{Command, Stdio};

use url::Url;

use crate::authorize::browser_url;

/// The program that opens addresses, with its arguments. None where a browser would appear on no screen of this person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browser {
    program: String,
    arguments: Vec<String>,
}

impl Browser {
    /// The browser of this environment: what `BROWSER` names, else the desktop's. None over SSH and without a display.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Browser> {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        if let Some(named) = variable("BROWSER").as_deref().and_then(Browser::named) {
            return Some(named);
        }
        let is_remote = is_set("SSH_CONNECTION") || is_set("SSH_TTY");
        let has_screen = cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
        let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        (has_screen && !is_remote).then(|| Browser { program: program.into(), arguments: vec![] })
    }

    /// The first of a list with colons, as the variable has it.
    fn named(list: &str) -> Option<Browser> {
        let first = list.split(':').find(|command| !command.trim().is_empty())?;
        let mut words = first.split_ascii_whitespace().map(str::to_owned);
        Some(Browser { program: words.next()?, arguments: words.collect() })
    }

    /// Starts it. The address is one argument, which no shell reads. It is checked again here, where nothing is in between.
    pub fn open(&self, url: &Url) -> io::Result<()> {
        let url = browser_url(url.as_str())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        let mut command = Command::new(&self.program);
        let has_place = self.arguments.iter().any(|argument| argument.contains("%s"));
        command.args(self.arguments.iter().map(|argument| argument.replace("%s", url.as_str())));
        if !has_place {
            command.arg(url.as_str());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C in the terminal is for Regrow.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        // Some browsers end at once and some with their last window. How they end says nothing about the sign-in.
        std::thread::spawn(move || child.wait());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Option<String> {
        let value =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into());
        Browser::find(value).map(|browser| [vec![browser.program], browser.arguments].concat().join(" "))
    }

    #[test]
    fn the_browser_is_the_one_that_the_environment_names() {
        assert_eq!(
            find(&[("BROWSER", "/opt/a b --new-window %s"), ("SSH_TTY", "x")]).unwrap(),
            "/opt/a b --new-window %s"
        );
        assert_eq!(find(&[("BROWSER", ":firefox:lynx")]).unwrap(), "firefox");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn there_is_none_over_ssh_or_without_a_display() {
        assert_eq!(find(&[("DISPLAY", ":0")]).unwrap(), "xdg-open");
        assert_eq!(find(&[("WAYLAND_DISPLAY", "wayland-0")]).unwrap(), "xdg-open");
        assert_eq!(find(&[("DISPLAY", ":0"), ("SSH_CONNECTION", "x")]), None);
        assert_eq!(find(&[("DISPLAY", "")]), None);
        assert_eq!(find(&[("BROWSER", " ")]), None);
    }

    #[test]
    fn no_process_starts_for_an_address_that_is_refused() {
        let none = Browser { program: "/nonexistent".into(), arguments: vec![] };
        let allowed = none.open(&Url::parse("https://a.example/").unwrap()).unwrap_err();
        assert_eq!(allowed.kind(), io::ErrorKind::NotFound, "it was started");
        for text in ["http://a.example/", "file:///bin/sh", "https://a.example/$(id)", "javascript:alert(1)"]
        {
            let refused = none.open(&Url::parse(text).unwrap()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{text}");
        }
    }
}
