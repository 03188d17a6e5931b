//! The report in a folder, in every form.

use std::path::Path;
use std::{fs, io};

use regrow_chaos::suite::Report;

pub(super) fn write(folder: &Path, report: &Report) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("report.json"), format!("{:#}\n", report.json()))?;
    fs::write(folder.join("report.xml"), report.junit())?;
    fs::write(folder.join("report.md"), report.markdown())?;
    fs::write(folder.join("report.html"), report.html())
}
