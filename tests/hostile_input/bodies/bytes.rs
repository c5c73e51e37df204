//! Decisions read from bytes, one after the other.

/// The bytes that are left; where there are none, everything is 0.
pub struct Bytes<'b>(pub &'b [u8]);

impl<'b> Bytes<'b> {
    pub fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::from(self.next()) % list.len()]
    }

    /// What comes before the next NUL.
    pub fn text(&mut self) -> &'b [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let (text, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest.get(1..).unwrap_or(&[]);
        text
    }
}
