//! A table in Markdown.

use std::fmt;

pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    #[must_use]
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Table { rows: vec![head.into_iter().map(Into::into).collect()] }
    }

    /// # Panics
    ///
    /// If it is longer or shorter than the head.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let row: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(row.len(), self.rows[0].len(), "{row:?}");
        self.rows.push(row);
    }
}

/// Text to the left, and from the second column on, what begins with a digit to the right.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, row) in self.rows.iter().enumerate() {
            writeln!(f, "| {} |", row.join(" | "))?;
            if at == 0 {
                let is_number = |column: usize| {
                    column > 0
                        && self.rows[1..].iter().all(|row| {
                            row[column].starts_with(|first: char| first.is_ascii_digit() || first == '–')
                        })
                };
                let rules: Vec<&str> =
                    (0..row.len()).map(|column| if is_number(column) { "---:" } else { "---" }).collect();
                writeln!(f, "|{}|", rules.join("|"))?;
            }
        }
        Ok(())
    }
}

/// A number as short as it can be read: two digits that count, and all of them before the point.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size < 9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_on_the_right() {
        let mut table = Table::new(["what", "how much"]);
        table.row(["one", "1"]);
        table.row(["none", "–"]);
        assert_eq!(table.to_string(), "| what | how much |\n|---|---:|\n| one | 1 |\n| none | – |\n");
    }

    #[test]
    fn a_figure_has_two_digits_or_more() {
        assert_eq!([0.0, 1.25, 9.96, 12.4, 1234.5].map(figure), ["0.0", "1.2", "10", "12", "1234"]);
    }
}
