//! Parses the parts of a Markdown page that the tests check: code blocks, inline code, links and
//! headings.

use super::{Page, Place};

/// A code block, which consists of lines between fences or of indented lines.
#[derive(Clone, Debug)]
pub struct Block {
    /// Number of the block's first line in the page.
    pub line: usize,
    pub lines: Vec<String>,
    /// The language given after the opening fence.
    pub language: String,
    pub marks: Marks,
}

/// Directives for a block, read from the comments immediately before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Prerequisites of the commands, such as programs, from `<!-- needs: tree, qemu -->`.
    pub needs: Vec<String>,
    /// Exit statuses that are allowed in addition to 0, from `<!-- exits: 1 -->`.
    pub exits: Vec<i32>,
    /// Command whose output `docs/figures.sh` inserts here, from `<!-- run: COMMAND -->`.
    pub run: Option<String>,
}

/// The parts of a page that the tests check.
#[derive(Debug, Default)]
pub struct Parts {
    pub blocks: Vec<Block>,
    /// Inline code spans, each with the number of the line on which its paragraph starts.
    pub spans: Vec<(usize, String)>,
    /// The targets of links and images, each with the number of the line on which its paragraph
    /// starts.
    pub links: Vec<(usize, String)>,
    /// Anchors of the headings, as GitHub generates them.
    pub anchors: Vec<String>,
}

impl Block {
    pub fn place(&self, page: &Page, index: usize) -> Place {
        Place {
            page: page.name.clone(),
            line: self.line + index,
        }
    }
}

/// Parses a page's text.
pub fn parts(text: &str) -> Parts {
    let mut parts = Parts::default();
    let mut marks = Marks::default();
    let mut paragraph: (usize, String) = (0, String::new());
    let lines: Vec<&str> = text.lines().collect();
    let mut i = 0;
    while i < lines.len() {
        let line = lines[i];
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        if bare.starts_with("```") {
            flush(&mut paragraph, &mut parts);
            let first = i + 1;
            let end = (first..lines.len())
                .find(|&j| lines[j].trim() == "```")
                .unwrap_or(lines.len());
            let inside = lines[first..end].iter();
            parts.blocks.push(Block {
                line: first + 1,
                lines: inside.map(|l| strip(l, indent)).collect(),
                language: bare.trim_start_matches('`').trim().to_string(),
                marks: std::mem::take(&mut marks),
            });
            i = end + 1;
            continue;
        }
        if indent >= 4 && !bare.is_empty() && paragraph.1.is_empty() {
            let end = (i..lines.len())
                .find(|&j| !lines[j].starts_with("    ") && !lines[j].trim().is_empty())
                .unwrap_or(lines.len());
            let inside = lines[i..end].iter().map(|l| strip(l, 4));
            parts.blocks.push(Block {
                line: i + 1,
                lines: inside.collect(),
                language: String::new(),
                marks: std::mem::take(&mut marks),
            });
            i = end;
            continue;
        }
        if let Some(comment) = comment(bare) {
            flush(&mut paragraph, &mut parts);
            mark(comment, &mut marks);
        } else if bare.is_empty() {
            flush(&mut paragraph, &mut parts);
        } else {
            marks = Marks::default();
            if bare.starts_with('#') && indent == 0 {
                flush(&mut paragraph, &mut parts);
                let heading = bare.trim_start_matches('#').trim();
                parts.anchors.push(anchor(heading));
            }
            if paragraph.1.is_empty() {
                paragraph.0 = i + 1;
            }
            paragraph.1.push_str(bare);
            paragraph.1.push(' ');
        }
        i += 1;
    }
    flush(&mut paragraph, &mut parts);
    parts
}

fn strip(line: &str, indent: usize) -> String {
    let blank = line.len() - line.trim_start().len();
    line[blank.min(indent)..].to_string()
}

fn comment(line: &str) -> Option<&str> {
    Some(line.strip_prefix("<!--")?.strip_suffix("-->")?.trim())
}

fn mark(comment: &str, marks: &mut Marks) {
    let list = |text: &str| -> Vec<String> {
        text.split([',', ' '])
            .filter(|w| !w.is_empty())
            .map(str::to_string)
            .collect()
    };
    match comment.split_once(':') {
        Some(("needs", what)) => marks.needs = list(what),
        Some(("exits", what)) => {
            marks.exits = list(what).iter().filter_map(|w| w.parse().ok()).collect();
        }
        Some(("run", what)) => marks.run = Some(what.trim().to_string()),
        _ => {}
    }
}

/// Collects the code spans and links of a complete paragraph, and starts a new paragraph.
fn flush(paragraph: &mut (usize, String), parts: &mut Parts) {
    let (line, text) = std::mem::take(paragraph);
    let mut prose = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        prose.push_str(&rest[..start]);
        let after = &rest[start + ticks..];
        let Some(end) = after.find(&"`".repeat(ticks)) else {
            rest = after;
            continue;
        };
        parts.spans.push((line, after[..end].trim().to_string()));
        // Replace each code span with a control character, so that links whose text consists only
        // of code are still found.
        prose.push('\u{1}');
        rest = &after[end + ticks..];
    }
    prose.push_str(rest);
    let mut rest = prose.as_str();
    while let Some(start) = rest.find("](") {
        rest = &rest[start + 2..];
        if let Some(end) = rest.find(')') {
            parts.links.push((line, rest[..end].trim().to_string()));
        }
    }
    if let Some((name, target)) = prose.split_once("]: ") {
        if name.starts_with('[') {
            parts.links.push((line, target.trim().to_string()));
        }
    }
}

/// Returns the anchor that GitHub generates for a heading: the heading in lower case, with hyphens
/// in place of blanks, and without other punctuation.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_taken_apart() {
        let page = "# A `b` c: d\n\ntext `kiln list` and\n[x](y.md#z), `two\nlines`\n\n\
                    <!-- needs: tree, jq -->\n<!-- exits: 1 -->\n```sh\nkiln tree ~/linux\n```\n\n    kiln list\n    more\n";
        let parts = parts(page);
        assert_eq!(parts.anchors, ["a-b-c-d"]);
        let spans: Vec<_> = parts.spans.iter().map(|(n, s)| (*n, s.as_str())).collect();
        assert_eq!(spans, [(1, "b"), (3, "kiln list"), (3, "two lines")]);
        assert_eq!(parts.links, [(3, "y.md#z".to_string())]);
        assert_eq!(parts.blocks.len(), 2);
        assert_eq!(parts.blocks[0].marks.needs, ["tree", "jq"]);
        assert_eq!(parts.blocks[0].marks.exits, [1]);
        assert_eq!(parts.blocks[0].line, 10);
        assert_eq!(parts.blocks[1].lines, ["kiln list", "more"]);
        assert_eq!(parts.blocks[1].marks, Marks::default());
    }
}
