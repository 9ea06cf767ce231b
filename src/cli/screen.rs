//! What is written where: answers to standard output, everything about them to standard error.
//! Colours only on a terminal, unless somebody says otherwise.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use super::args::{Colour, ViewArgs};
use super::failure::Failure;
use super::text::{Moments, clean};

/// Colours of the sixteen that every terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\u{1b}[1m",
            Self::Dim => "\u{1b}[2m",
            Self::Red => "\u{1b}[31m",
            Self::Green => "\u{1b}[32m",
            Self::Yellow => "\u{1b}[33m",
        }
    }

    /// The colour of a status.
    pub(super) fn of_status(status: &str) -> Self {
        match status {
            "UP" => Self::Green,
            "DOWN" => Self::Red,
            "OUT_OF_SERVICE" | "STARTING" => Self::Yellow,
            _ => Self::Plain,
        }
    }

    /// The colour of a kind of change.
    pub(super) fn of_kind(kind: &str) -> Self {
        match kind {
            "registered" | "re-registered" | "released" => Self::Green,
            "cancelled" | "evicted" => Self::Red,
            "drained" | "quarantined" => Self::Yellow,
            kind if kind.starts_with("override") => Self::Yellow,
            _ => Self::Plain,
        }
    }
}

/// A cell of a table. What it shows is made harmless.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    pub(super) fn new(text: impl Display) -> Self {
        Self::painted(text, Paint::Plain)
    }

    pub(super) fn painted(text: impl Display, paint: Paint) -> Self {
        Self {
            text: clean(&text.to_string()),
            paint,
        }
    }
}

/// Rows below a head, aligned.
#[derive(Debug)]
pub(super) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new(head: &[&'static str]) -> Self {
        Self {
            head: head.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The widths of the columns. A cell beyond [`COLUMN_MAX`] does not count: it pushes the rest of its
    /// own row to the right, and no other row.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|name| name.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                let wanted = cell.text.chars().count();
                if wanted <= COLUMN_MAX {
                    *width = (*width).max(wanted);
                }
            }
        }
        widths
    }
}

/// Widest column that all rows are filled up to.
const COLUMN_MAX: usize = 60;

/// A table whose rows are written as they come: the first of them say how wide the columns are, so
/// that what fits into them looks like a [`Table`].
#[derive(Debug)]
pub(super) struct Flow {
    /// The rows that wait for the widths.
    first: Table,
    /// Set once these are written.
    widths: Option<Vec<usize>>,
}

impl Flow {
    /// Rows that are waited for.
    const FIRST: usize = 1000;

    pub(super) fn new(head: &[&'static str]) -> Self {
        Self {
            first: Table::new(head),
            widths: None,
        }
    }

    pub(super) fn row(
        &mut self,
        cells: impl IntoIterator<Item = Cell>,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        if let Some(widths) = &self.widths {
            let row: Vec<Cell> = cells.into_iter().collect();
            return screen.row(&row, widths);
        }
        self.first.row(cells);
        if self.first.rows.len() < Self::FIRST {
            return Ok(());
        }
        screen.table(&self.first)?;
        self.widths = Some(self.first.widths());
        self.first.rows = Vec::new();
        Ok(())
    }

    /// Writes what still waits. Without rows there is no head either.
    pub(super) fn finish(self, screen: &mut Screen) -> Result<(), Failure> {
        if self.first.rows.is_empty() {
            return Ok(());
        }
        screen.table(&self.first)
    }
}

/// Standard output and standard error.
pub(super) struct Screen {
    out: Box<dyn Write>,
    is_coloured: bool,
    has_terminal_for_notes: bool,
    /// A line of progress stands on the terminal and has to be wiped away first.
    has_progress: bool,
    pub(super) moments: Moments,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen")
            .field("is_coloured", &self.is_coloured)
            .finish_non_exhaustive()
    }
}

impl Screen {
    /// `has_no_color` says that the environment asks for none.
    pub(super) fn new(view: ViewArgs, has_no_color: bool) -> Self {
        let stdout = io::stdout();
        let is_coloured = match view.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => stdout.is_terminal() && !has_no_color,
        };
        Self {
            out: Box::new(BufWriter::with_capacity(64 << 10, stdout)),
            is_coloured,
            has_terminal_for_notes: io::stderr().is_terminal(),
            has_progress: false,
            moments: Moments::new(view.utc),
        }
    }

    #[cfg(test)]
    pub(super) fn to(out: Box<dyn Write>, is_coloured: bool) -> Self {
        Self {
            out,
            is_coloured,
            has_terminal_for_notes: false,
            has_progress: false,
            moments: Moments::new(true),
        }
    }

    /// A text in a colour, if there are colours.
    pub(super) fn paint(&self, text: &str, paint: Paint) -> String {
        if self.is_coloured && paint != Paint::Plain {
            format!("{}{text}\u{1b}[0m", paint.code())
        } else {
            text.to_owned()
        }
    }

    /// One line.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        writeln!(self.out, "{text}").map_err(|error| Failure::output(&error))
    }

    /// Bytes as they are.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out
            .write_all(bytes)
            .map_err(|error| Failure::output(&error))
    }

    /// A document as it is, ended by a line end.
    pub(super) fn document(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes(bytes)?;
        if bytes.last() == Some(&b'\n') {
            Ok(())
        } else {
            self.line("")
        }
    }

    /// Hands on what was written so far.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| Failure::output(&error))
    }

    pub(super) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        let widths = table.widths();
        let head: Vec<Cell> = table
            .head
            .iter()
            .map(|name| Cell::painted(name, Paint::Bold))
            .collect();
        for row in std::iter::once(&head).chain(&table.rows) {
            self.row(row, &widths)?;
        }
        Ok(())
    }

    /// One row of a table.
    fn row(&mut self, row: &[Cell], widths: &[usize]) -> Result<(), Failure> {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            line.push_str(&self.paint(&cell.text, cell.paint));
            if at + 1 < row.len() {
                let width = widths.get(at).copied().unwrap_or_default();
                let missing = width.saturating_sub(cell.text.chars().count());
                line.extend(std::iter::repeat_n(' ', missing + 2));
            }
        }
        self.line(line.trim_end())
    }

    /// Says something about the answer that is no part of it, or why there is none.
    pub(super) fn note(&mut self, text: &str) {
        self.wipe();
        // Nothing is left to tell it to if this fails.
        let _ = writeln!(io::stderr(), "eurekad: {}", self.moments.in_text(text));
    }

    /// Says how far it is, on a terminal only; the next such line takes its place.
    pub(super) fn progress(&mut self, text: &str) {
        if self.has_terminal_for_notes {
            let _ = write!(io::stderr(), "\r\u{1b}[K{}", clean(text));
            let _ = io::stderr().flush();
            self.has_progress = true;
        }
    }

    fn wipe(&mut self) {
        if self.has_progress {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
            let _ = io::stderr().flush();
            self.has_progress = false;
        }
    }

    /// Ends the output.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.wipe();
        self.flush()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what was written.
    #[derive(Clone, Debug, Default)]
    pub(in crate::cli) struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        pub(in crate::cli) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn columns_are_aligned_whatever_the_colours() {
        for is_coloured in [false, true] {
            let paper = Paper::default();
            let mut screen = Screen::to(Box::new(paper.clone()), is_coloured);
            let mut table = Table::new(&["APP", "STATUS", "ID"]);
            table.row([
                Cell::new("BILLING"),
                Cell::painted("UP", Paint::Green),
                Cell::new("b\n1"),
            ]);
            table.row([
                Cell::new("Ä"),
                Cell::painted("DOWN", Paint::Red),
                Cell::new(""),
            ]);
            screen.table(&table).unwrap();
            let plain = paper
                .text()
                .replace("\u{1b}[0m", "")
                .replace("\u{1b}[1m", "")
                .replace("\u{1b}[31m", "")
                .replace("\u{1b}[32m", "");
            assert_eq!(
                plain,
                "APP      STATUS  ID\nBILLING  UP      b\\n1\nÄ        DOWN\n"
            );
            assert_eq!(paper.text().contains('\u{1b}'), is_coloured);
        }
    }

    #[test]
    fn a_long_cell_moves_its_own_row_only_and_nothing_of_it_is_lost() {
        let long = "x".repeat(300);
        let fits = "y".repeat(COLUMN_MAX);
        let paper = Paper::default();
        let mut screen = Screen::to(Box::new(paper.clone()), false);
        let mut table = Table::new(&["ID", "STATUS"]);
        for id in [&*long, "b", &*fits] {
            table.row([Cell::new(id), Cell::new("UP")]);
        }
        screen.table(&table).unwrap();
        let filled = |text: &str| format!("{text:<COLUMN_MAX$}  ");
        let rows = [
            filled("ID") + "STATUS",
            long + "  UP",
            filled("b") + "UP",
            filled(&fits) + "UP",
        ];
        assert_eq!(paper.text(), rows.join("\n") + "\n");
    }

    #[test]
    fn rows_that_come_one_by_one_look_like_a_table() {
        let rows = |count: usize| (0..count).map(|at| [Cell::new(at), Cell::new("x")]);
        let (table_paper, flow_paper) = (Paper::default(), Paper::default());
        for count in [0, 1, Flow::FIRST - 1, Flow::FIRST, 2 * Flow::FIRST] {
            let mut screen = Screen::to(Box::new(table_paper.clone()), false);
            let mut table = Table::new(&["NUMBER", "WHAT"]);
            rows(count).for_each(|row| table.row(row));
            if count > 0 {
                screen.table(&table).unwrap();
            }
            let mut screen = Screen::to(Box::new(flow_paper.clone()), false);
            let mut flow = Flow::new(&["NUMBER", "WHAT"]);
            for row in rows(count) {
                flow.row(row, &mut screen).unwrap();
            }
            flow.finish(&mut screen).unwrap();
            assert_eq!(flow_paper.text(), table_paper.text());
        }
    }
}
