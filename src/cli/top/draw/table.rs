//! Tables of the view: columns that stay where they are while numbers change, so that a slow line carries the
//! numbers and nothing else; where they do not fit, those of the least weight are left out.

#![forbid(unsafe_code)]

use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// A column.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    /// Numbers are at the right edge.
    pub(super) right: bool,
    /// The least width, which numbers to come will need too.
    pub(super) least: usize,
    /// Where it is tight, columns of the highest rank go first; those of rank 0 stay.
    pub(super) rank: u8,
}

impl Column {
    pub(super) const fn text(heading: &'static str, least: usize, rank: u8) -> Column {
        Column { heading, right: false, least, rank }
    }

    pub(super) const fn number(heading: &'static str, least: usize, rank: u8) -> Column {
        Column { heading, right: true, least, rank }
    }
}

/// A cell's text and how it looks.
pub(super) type Cell = (String, Style);

/// Blanks between two columns.
const GAP: usize = 1;

/// A heading and a line a row, each at most `width` wide. The last column may take what is left and is cut there.
pub(super) fn lines<const N: usize>(
    columns: [Column; N],
    rows: Vec<[Cell; N]>,
    width: usize,
    heading: Style,
) -> (Line<'static>, Vec<Line<'static>>) {
    let natural = |place: usize| {
        let cells = rows.iter().map(|row| row[place].0.chars().count());
        cells.max().unwrap_or(0).max(columns[place].least).max(columns[place].heading.chars().count())
    };
    let mut widths: [usize; N] = std::array::from_fn(natural);
    let mut shown: Vec<usize> = (0..N).collect();
    let last = N - 1;
    // The last column is text that may be cut, to a word or two.
    let needed = |shown: &[usize], widths: &[usize; N]| {
        let of = |place: &usize| if *place == last { widths[*place].min(12) } else { widths[*place] };
        shown.iter().map(of).sum::<usize>() + GAP * shown.len().saturating_sub(1)
    };
    while needed(&shown, &widths) > width {
        let Some(least) = shown
            .iter()
            .copied()
            .filter(|place| columns[*place].rank > 0)
            .max_by_key(|place| columns[*place].rank)
        else {
            break;
        };
        shown.retain(|place| *place != least);
    }
    if shown.contains(&last) {
        let others: usize =
            shown.iter().filter(|place| **place != last).map(|place| widths[*place] + GAP).sum();
        widths[last] = width.saturating_sub(others);
    }
    let line = |cells: &[Cell; N]| {
        let mut spans = Vec::with_capacity(2 * shown.len());
        for (number, place) in shown.iter().copied().enumerate() {
            let (text, style) = &cells[place];
            let blanks = if number == 0 { "" } else { " " };
            spans.push(Span::raw(blanks));
            spans.push(Span::styled(padded(text, widths[place], columns[place].right), *style));
        }
        Line::from(spans)
    };
    let headings: [Cell; N] = std::array::from_fn(|place| (columns[place].heading.to_owned(), heading));
    (line(&headings), rows.iter().map(line).collect())
}

fn padded(text: &str, width: usize, right: bool) -> String {
    if text.chars().count() > width {
        return cut(text, width);
    }
    if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

/// `text` in at most `width` columns, with a sign that there is more.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    match width {
        0 => String::new(),
        width => text.chars().take(width - 1).chain(['…']).collect(),
    }
}

/// `text` in lines of at most `width` columns, broken between words where it can be.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        let used = line.chars().count();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
        }
        while word.len() > width {
            lines.push(word.drain(..width).collect());
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(line: &Line<'_>) -> String {
        line.spans.iter().map(|span| span.content.as_ref()).collect()
    }

    fn table(width: usize) -> Vec<String> {
        let columns = [
            Column::text("WHO", 4, 0),
            Column::number("FLOWS", 6, 0),
            Column::number("NEW/S", 5, 2),
            Column::text("WHY", 3, 3),
        ];
        let plain = Style::new();
        let cells = |texts: [&str; 4]| texts.map(|text| (text.to_owned(), plain));
        let rows =
            vec![cells(["fw/1", "12", "3", "it does not answer at all"]), cells(["fw/10", "7", "0", ""])];
        let (heading, lines) = lines(columns, rows, width, plain);
        [heading].iter().chain(&lines).map(text_of).collect()
    }

    #[test]
    fn columns_of_the_least_weight_are_left_out_where_it_is_tight() {
        assert_eq!(
            table(40),
            [
                "WHO    FLOWS NEW/S WHY                  ",
                "fw/1      12     3 it does not answer a…",
                "fw/10      7     0                      ",
            ]
        );
        assert_eq!(table(20)[1], "fw/1      12     3");
        assert_eq!(table(14), ["WHO    FLOWS", "fw/1      12", "fw/10      7"]);
        // What is narrower yet is cut by the screen.
        assert_eq!(table(3)[1], "fw/1      12");
    }

    #[test]
    fn a_sentence_is_broken_between_words_and_a_long_word_within() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(wrapped("", 3), [""; 0]);
        assert_eq!(wrapped("a", 0), ["a"]);
        assert_eq!(
            (cut("abcd", 3), cut("abc", 3), cut("abc", 0)),
            ("ab…".into(), "abc".into(), String::new())
        );
    }
}
