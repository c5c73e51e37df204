//! A circle of chains in words: of a long one, its ends.

use std::fmt;

/// How many chains are shown of each end of a circle that is longer than twice that.
const END: usize = 10;

/// Shown as `a -> b -> a`.
pub(super) struct Circle<'a, T>(pub(super) &'a [T]);

impl<T: fmt::Display> fmt::Display for Circle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else {
            return Ok(());
        };
        let left_out = self.0.len().saturating_sub(2 * END);
        for (place, chain) in self.0.iter().enumerate() {
            if left_out > 0 && place == END {
                write!(f, "... {left_out} more ... -> ")?;
            }
            if left_out == 0 || place < END || place >= END + left_out {
                write!(f, "{chain} -> ")?;
            }
        }
        write!(f, "{first}")
    }
}

#[cfg(test)]
mod tests {
    use crate::{ChainName, Error};

    fn text(count: usize) -> String {
        let chains = (0..count).map(|n| ChainName::new(&format!("web-{n}")).unwrap());
        let chains = chains.collect();
        Error::Cycle { chains }.to_string()
    }

    #[test]
    fn a_short_circle_is_shown_whole_and_a_long_one_by_its_ends() {
        let start = "these chains would jump in a circle: ";
        assert_eq!(text(2), format!("{start}web-0 -> web-1 -> web-0"));
        assert!(text(20).ends_with("web-9 -> web-10 -> web-11 -> web-12 -> web-13 -> web-14 -> web-15 -> web-16 -> web-17 -> web-18 -> web-19 -> web-0"));
        let long = text(50_000);
        assert!(long.len() < 500, "{}", long.len());
        assert!(long.contains("web-9 -> ... 49980 more ... -> web-49990 -> "));
        assert!(long.ends_with("web-49999 -> web-0"));
    }
}
