//! A terminal's screen, of the few control sequences that the live view uses.

/// What is to be seen.
pub struct Grid {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Grid {
    pub fn new(columns: u16, rows: u16) -> Grid {
        Grid { cells: vec![vec![' '; columns.into()]; rows.into()], row: 0, column: 0 }
    }

    /// Takes what a program wrote, from the start: whole sequences, but for one at the end that is not over.
    pub fn of(columns: u16, rows: u16, written: &str) -> Grid {
        let mut grid = Grid::new(columns, rows);
        let mut rest = written.chars();
        while let Some(sign) = rest.next() {
            match sign {
                '\u{1b}' => {
                    if rest.next() != Some('[') {
                        continue;
                    }
                    let mut parameters = String::new();
                    let Some(end) = rest.by_ref().find(|sign| {
                        let is_end = ('@'..='~').contains(sign);
                        if !is_end {
                            parameters.push(*sign);
                        }
                        is_end
                    }) else {
                        break;
                    };
                    grid.control(end, &parameters);
                }
                '\r' => grid.column = 0,
                '\n' => grid.row += 1,
                sign => grid.print(sign),
            }
        }
        grid
    }

    fn control(&mut self, end: char, parameters: &str) {
        let mut numbers = parameters.split(';').map(|number| number.parse::<usize>().unwrap_or(1));
        match end {
            'H' => {
                self.row = numbers.next().unwrap_or(1) - 1;
                self.column = numbers.next().unwrap_or(1) - 1;
            }
            'J' => self.cells.iter_mut().flatten().for_each(|cell| *cell = ' '),
            // Colours, and the cursor's look.
            'm' | 'h' | 'l' => {}
            other => panic!("the sequence {parameters}{other} is not known here"),
        }
    }

    fn print(&mut self, sign: char) {
        if let Some(cell) = self.cells.get_mut(self.row).and_then(|row| row.get_mut(self.column)) {
            *cell = sign;
        }
        self.column += 1;
    }

    /// The lines, without the blanks at their ends.
    pub fn text(&self) -> String {
        let line = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned() + "\n";
        self.cells.iter().map(line).collect()
    }
}
