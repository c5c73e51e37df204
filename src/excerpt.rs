//! Bounded pieces of text for errors and logs.

/// How many bytes of a text of others an error or a log line shows.
const MAX: usize = 2_000;

/// The text, cut short with a note of how much is missing.
pub(crate) fn of(text: &str) -> String {
    cut(text, MAX)
}

/// The same for bytes that need not be UTF-8.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(MAX + 4)];
    let mut text = cut(&String::from_utf8_lossy(shown), MAX);
    if bytes.len() > shown.len() {
        text = format!("{text} (of {} bytes)", bytes.len());
    }
    text
}

/// A short piece, for the middle of a sentence.
pub(crate) fn short(text: &str) -> String {
    cut(text, 120)
}

fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{}…", beginning(text, max))
}

/// The beginning of the text that fits in so many bytes, whole characters only.
pub(crate) fn beginning(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(short("abc"), "abc");
        let cut = short(&"ä".repeat(100));
        assert_eq!(cut, format!("{}…", "ä".repeat(60)));
        assert_eq!(beginning("aä", 2), "a");
        assert_eq!(beginning("abc", 9), "abc");
        assert_eq!(of_bytes(b"a\xffb"), "a\u{fffd}b");
        assert!(of_bytes(&[b'x'; 9000]).ends_with("… (of 9000 bytes)"));
    }
}
