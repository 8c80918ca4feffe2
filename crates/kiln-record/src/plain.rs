//! Makes text from untrusted sources, such as the text in a record, safe to print on a terminal.

/// Returns the text as one line, in which each control character is replaced by a space. A terminal
/// would interpret control characters: an escape sequence can hide or rewrite other lines.
pub fn plain(text: &str) -> String {
    text.trim().replace(char::is_control, " ")
}

/// Like [`plain`], but keeps line breaks, tabs, and leading and trailing white space.
pub(crate) fn plain_lines(text: &str) -> String {
    text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_nothing_to_obey() {
        let text = " a\x1b[2Jb\u{9b}1mc\r\u{7f}d\ne\n";
        assert_eq!(plain(text), "a [2Jb 1mc  d e");
        assert_eq!(plain_lines(text), " a [2Jb 1mc  d\ne\n");
        assert_eq!(plain_lines("a\tb"), "a\tb");
        let usual = "xts(aes) \u{3bc} \u{2026} 100 %";
        assert_eq!(plain(usual), usual);
    }
}
