//! How iptables-save writes free text: bare where it is one plain word, else in quotes.

/// The text as saved; inside quotes `"`, `'` and `\` are escaped.
pub(super) fn text(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '\'') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_the_tool_does() {
        for (given, saved) in [
            ("web-1_x", "web-1_x"),
            ("-j", "-j"),
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("it's", "\"it\\'s\""),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            ("ünï", "\"ünï\""),
            ("a;b", "\"a;b\""),
        ] {
            assert_eq!(text(given), saved);
        }
    }
}
