//! Formats the results of a survey as human-readable text, topic by topic.

use kiln_question::survey::{Row, Topic};
use kiln_question::table::{paragraph, wrap, WIDTH};

use super::plan::LeftOut;

/// Formats the results of a topic, below a line that contains its title and the command that gives
/// more detail.
pub fn block(topic: &Topic, rows: &[Row], tty: bool) -> String {
    let (title, command) = (topic.title, topic.command);
    let gap = WIDTH.saturating_sub(title.chars().count() + command.len());
    let title = match tty {
        true => format!("\x1b[1m{title}\x1b[0m"),
        false => title.to_string(),
    };
    format!("{title}{}{command}\n{}", " ".repeat(gap), sentences(rows))
}

/// Formats each row as its verdict followed by an explanation. If the first row has no explanation,
/// its headline is shown instead. The other headlines, which contain the full evidence, appear only
/// on the page and in the record.
fn sentences(rows: &[Row]) -> String {
    let mut text = String::new();
    for (n, row) in rows.iter().enumerate() {
        if let Some(verdict) = &row.verdict {
            text.push_str(&paragraph(&format!("  {verdict}")));
            text.push('\n');
        }
        let headline = row.headline.as_ref().filter(|_| n == 0);
        if let Some(sentences) = row.detail.as_ref().or(headline) {
            for line in wrap(&format!("  {sentences}."), WIDTH - 2).lines() {
                text.push_str(&format!("  {line}\n"));
            }
        }
    }
    text
}

/// Formats the list of what was left out, with the commands that would add it.
pub fn left_out(all: &[LeftOut]) -> String {
    if all.is_empty() {
        return String::new();
    }
    // Combine omissions that the same command would add.
    let mut adds: Vec<(&str, Vec<&str>)> = Vec::new();
    for left in all {
        match adds.iter_mut().find(|(add, _)| *add == left.add) {
            Some((_, whats)) => whats.push(&left.what),
            None => adds.push((&left.add, vec![&left.what])),
        }
    }
    let mut text = "Left out, and how to add it:\n".to_string();
    for (add, whats) in adds {
        text.push_str(&paragraph(&format!("  {}: {add}", join(&whats))));
        text.push('\n');
    }
    text
}

/// Joins the descriptions of omissions. The reason is the text after the last comma; if all reasons
/// are the same, it is given only once.
fn join(whats: &[&str]) -> String {
    let split: Option<Vec<_>> = whats.iter().map(|w| w.rsplit_once(", ")).collect();
    match split.as_deref() {
        Some([(_, reason), rest @ ..]) if rest.iter().all(|(_, r)| r == reason) => {
            let whats: Vec<&str> = split.iter().flatten().map(|(what, _)| *what).collect();
            format!("{}, {reason}", whats.join(" and "))
        }
        _ => whats.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::plan::topics;

    #[test]
    fn blocks_fit_80_columns_and_name_the_command() {
        let rows = [Row::new(
            topics()[0],
            3.0,
            "times",
            "a sentence that is long enough to be broken "
                .repeat(3)
                .trim()
                .to_string(),
        )
        .with_verdict("3.00 times (2.90 to 3.10)".to_string())];
        for topic in topics() {
            let text = block(topic, &rows, false);
            let first = text.lines().next().unwrap();
            assert_eq!(first.chars().count(), WIDTH, "{first}");
            assert!(first.ends_with(topic.command));
            assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
            assert!(block(topic, &rows, true).starts_with("\x1b[1m"));
        }
        assert_eq!(sentences(&[Row::none(topics()[0])]), "");
        // The second row must show its verdict and any explanation, but never its headline.
        let twice = sentences(&[rows[0].clone(), rows[0].clone()]);
        assert_eq!(twice.matches("3.00 times").count(), 2);
        assert_eq!(twice.matches("a sentence that").count(), 3, "{twice}");
        let detailed = rows[0].clone().with_detail("It means this".to_string());
        let twice = sentences(&[detailed.clone(), detailed]);
        assert_eq!(twice.matches("    It means this.\n").count(), 2, "{twice}");
        assert_eq!(twice.matches("a sentence that").count(), 0, "{twice}");
    }

    #[test]
    fn what_one_command_adds_is_told_once() {
        let left = |what: &str, add: &str| LeftOut {
            topic: topics()[0],
            what: what.to_string(),
            add: add.to_string(),
        };
        let all = [
            left("a, to save time", "kiln survey --minutes 3"),
            left("b", "apt-get install b"),
            left("c", "kiln survey --minutes 3"),
        ];
        assert_eq!(
            left_out(&all),
            "Left out, and how to add it:\n  a, to save time; c: kiln survey --minutes 3\n  b: apt-get install b\n"
        );
        let all = [
            left("10 ciphers, to save time", "a"),
            left("1 compiler, to save time", "a"),
        ];
        assert!(left_out(&all).ends_with("  10 ciphers and 1 compiler, to save time: a\n"));
        assert_eq!(left_out(&[]), "");
    }
}
