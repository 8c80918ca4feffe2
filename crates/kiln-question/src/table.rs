//! Human-readable tables, 80 columns wide.

use comfy_table::{presets, CellAlignment, ContentArrangement, Table};
use kiln_record::Facts;

/// Width of every table, in columns.
pub const WIDTH: usize = 80;

/// Creates a table whose columns are separated only by spaces, so that awk can split its lines.
pub fn plain() -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Separates columns with two spaces, and right-aligns the numeric columns, whose indices are in
/// `figures`.
pub fn align(table: &mut Table, figures: impl IntoIterator<Item = usize>) {
    let columns = table.column_count();
    for i in 0..columns {
        if let Some(column) = table.column_mut(i) {
            column.set_padding((0, if i + 1 == columns { 0 } else { 2 }));
        }
    }
    for i in figures {
        if let Some(column) = table.column_mut(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Returns the table as text, without trailing blanks.
pub fn text(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the processor's name, followed by the name of the hypervisor, if any.
fn processor(facts: &Facts) -> String {
    let m = &facts.machine;
    let place = match (&m.hypervisor_vendor, m.hypervisor) {
        (Some(vendor), _) => format!(", under {}", hypervisor(vendor)),
        (None, true) => ", under a hypervisor".to_string(),
        (None, false) => String::new(),
    };
    format!(
        "{} (family {} model {}), {:.2} GHz, {} cores{place}",
        m.model,
        m.family,
        m.model_number,
        m.core_hz / 1e9,
        m.cores
    )
}

/// Returns one line that describes the machine and one that describes the compiler that built
/// `kernel/`.
pub fn machine(facts: &Facts) -> String {
    let hardware = processor(facts);
    let software = format!(
        "Linux {}; C code built by {}",
        facts.machine.kernel,
        compiler(&facts.kernel_cc)
    );
    format!("{}\n{}", paragraph(&hardware), paragraph(&software))
}

/// Returns the common name of the hypervisor with this CPUID signature, or the signature itself if
/// the hypervisor is unknown.
pub fn hypervisor(vendor: &str) -> &str {
    match vendor {
        "KVMKVMKVM" => "KVM",
        "Microsoft Hv" => "Hyper-V",
        "VMwareVMware" => "VMware",
        "XenVMMXenVMM" => "Xen",
        other => other,
    }
}

/// Extracts the version text from a compiler description such as `/usr/bin/cc (cc (Debian
/// 12.2.0-14) 12.2.0)`. The version text is the part inside the outermost parentheses, here `cc
/// (Debian 12.2.0-14) 12.2.0`.
pub fn compiler(cc: &str) -> &str {
    let words = cc.split_once(" (").and_then(|(_, w)| w.strip_suffix(')'));
    words.unwrap_or(cc)
}

/// Formats the notes and the seed. Each starts on a new line and is wrapped.
pub fn notes(notes: &[String], seed: u64) -> String {
    let seed = format!("seed {seed}");
    notes
        .iter()
        .chain([&seed])
        .map(|note| paragraph(note) + "\n")
        .collect()
}

/// Wraps text to the width of a table.
pub fn paragraph(text: &str) -> String {
    wrap(text, WIDTH)
}

/// Wraps a line between words to at most `width` columns, and indents the continuation lines.
pub fn wrap(line: &str, width: usize) -> String {
    let words = line.trim_start_matches(' ');
    let mut used = 0;
    let mut text = " ".repeat(line.len() - words.len());
    let indented = text.len();
    for word in words.split(' ') {
        let length = word.chars().count();
        if used > 0 && indented + used + 1 + length > width {
            text.push_str("\n  ");
            used = 2;
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
    }
    text
}

/// Formats a number with three significant digits, or more if needed to show whole units. A value
/// that could not be measured is shown as a dash.
pub fn figure(x: f64) -> String {
    if !x.is_finite() {
        return "-".to_string();
    }
    let decimals = match x.abs() {
        x if x < 9.995 => 2,
        x if x < 99.95 => 1,
        _ => 0,
    };
    let decimals = if x.abs() < 0.9995 { 3 } else { decimals };
    format!("{x:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        for (x, want) in [
            (0.12345, "0.123"),
            (0.9999, "1.00"),
            (1.234, "1.23"),
            (9.999, "10.0"),
            (46.04, "46.0"),
            (99.99, "100"),
            (12345.6, "12346"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(figure(x), want);
        }
    }

    #[test]
    fn machines_are_named_in_plain_words() {
        assert_eq!(hypervisor("KVMKVMKVM"), "KVM");
        assert_eq!(hypervisor("bhyve bhyve "), "bhyve bhyve ");
        let cc = "/usr/bin/cc (cc (Debian 12.2.0-14) 12.2.0)";
        assert_eq!(compiler(cc), "cc (Debian 12.2.0-14) 12.2.0");
        assert_eq!(compiler("cc"), "cc");
    }

    #[test]
    fn long_notes_wrap_and_keep_every_word() {
        let note = "word ".repeat(40);
        let text = wrap(note.trim(), 30);
        assert!(text.lines().all(|l| l.chars().count() <= 30), "{text}");
        assert_eq!(text.split_whitespace().count(), 40);
        assert_eq!(wrap("short", 30), "short");
        assert_eq!(wrap("  a  b", 30), "  a  b");
    }
}
