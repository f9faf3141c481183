//! Text tables: the first column to the left, numbers to the right.

/// A table of text.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table under these heads.
    pub(crate) fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>) -> Self {
        Self { rows: vec![heads.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as lines, without blanks at their ends.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cell = |row: &Vec<String>| row.get(column).map_or(0, |cell| cell.chars().count());
            self.rows.iter().map(cell).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    line.push_str(&format!("{cell:<width$}"));
                } else {
                    line.push_str(&format!("  {cell:>width$}"));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A time, with as many digits as it is worth; microseconds.
pub(super) fn micros(us: f64) -> String {
    match us {
        us if us >= 100.0 => format!("{us:.0}"),
        us if us >= 10.0 => format!("{us:.1}"),
        us if us >= 0.1 => format!("{us:.2}"),
        us => format!("{us:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_names_to_the_left_and_numbers_to_the_right() {
        let mut table = Table::new(["op", "us"]);
        table.row(["fault", "26"]);
        table.row(["get", "7.25"]);
        table.row(["bare"]);
        assert_eq!(table.render(), "op       us\nfault    26\nget    7.25\nbare\n");
    }

    #[test]
    fn times_show_three_digits_or_so() {
        let shown: Vec<String> = [314.2, 26.04, 7.256, 0.0123].map(micros).into();
        assert_eq!(shown, ["314", "26.0", "7.26", "0.0123"]);
    }
}
