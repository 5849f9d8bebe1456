//! How the parts of the list share the height there is.

#![forbid(unsafe_code)]

/// What is wrong, load balancers, targets, drains, workers, events: as they are on the screen.
pub(super) const PARTS: usize = 6;
/// The first of them stays longest.
const WRONG: usize = 0;
/// The parts in the order in which they give their place up where it is tight.
const GIVE_UP: [usize; PARTS] = [5, 4, 1, 3, 2, WRONG];

/// What a part would have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// All its lines.
    pub(super) lines: usize,
    /// Those that it should have.
    pub(super) least: usize,
    /// Lines of its heading.
    pub(super) heading: usize,
    /// Whether its operator is in it.
    pub(super) is_here: bool,
}

impl Claim {
    /// Its height with so many of its lines.
    fn height(&self, lines: usize) -> usize {
        if lines == 0 { 0 } else { lines + self.heading }
    }
}

/// How many lines of each part there is room for in `height`.
pub(super) fn shares(claims: &[Claim; PARTS], height: usize) -> [usize; PARTS] {
    let mut shares = claims.map(|claim| claim.least.min(claim.lines));
    let used = |shares: &[usize; PARTS]| -> usize {
        claims.iter().zip(shares).map(|(claim, share)| claim.height(*share)).sum()
    };
    let here = claims.iter().position(|claim| claim.is_here);
    for place in GIVE_UP.into_iter().filter(|place| Some(*place) != here && *place != WRONG) {
        if used(&shares) > height {
            shares[place] = 0;
        }
    }
    // The two that are left go down to a line each, and then to none.
    for least in [1, 0] {
        for place in here.into_iter().chain([WRONG]) {
            while shares[place] > least && used(&shares) > height {
                shares[place] -= 1;
            }
        }
    }
    // What is left goes to the part that its operator is in, and then to those that stay longest.
    for place in here.into_iter().chain(GIVE_UP.into_iter().rev()) {
        loop {
            let mut more = shares;
            more[place] += 1;
            if more[place] > claims[place].lines || used(&more) > height {
                break;
            }
            shares = more;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(lines: usize, least: usize, is_here: bool) -> Claim {
        Claim { lines, least, heading: 1, is_here }
    }

    /// Two sentences of what is wrong, a load balancer, a hundred targets, a drain, four workers, events.
    fn parts(here: usize) -> [Claim; PARTS] {
        let mut parts = [
            claim(2, 2, false),
            claim(1, 1, false),
            claim(100, 4, false),
            claim(1, 1, false),
            claim(4, 2, false),
            claim(50, 2, false),
        ];
        parts[0].heading = 0;
        parts[here].is_here = true;
        parts
    }

    #[test]
    fn the_part_that_its_operator_is_in_has_what_the_others_can_spare() {
        assert_eq!(shares(&parts(2), 21), [2, 1, 8, 1, 2, 2]);
        assert_eq!(shares(&parts(5), 21), [2, 1, 4, 1, 2, 6]);
        assert_eq!(shares(&parts(2), 200), [2, 1, 100, 1, 4, 50]);
    }

    #[test]
    fn where_it_is_tight_what_is_wrong_stays_longest() {
        assert_eq!(shares(&parts(2), 16), [2, 1, 6, 1, 2, 0], "the events go first");
        assert_eq!(shares(&parts(2), 12), [2, 1, 5, 1, 0, 0]);
        assert_eq!(shares(&parts(2), 5), [2, 0, 2, 0, 0, 0]);
        assert_eq!(shares(&parts(2), 3), [1, 0, 1, 0, 0, 0]);
        assert_eq!(shares(&parts(2), 2), [2, 0, 0, 0, 0, 0]);
        assert_eq!(shares(&parts(2), 0), [0; PARTS]);
        assert_eq!(shares(&parts(4), 5), [2, 0, 0, 0, 2, 0]);
    }

    proptest! {
        #[test]
        fn no_more_is_given_than_there_is_and_nothing_is_left_that_somebody_could_use(
            lines in prop::array::uniform6(0_usize..60),
            least in prop::array::uniform6(0_usize..9),
            heading in prop::array::uniform6(0_usize..2),
            here in prop::option::of(0..PARTS),
            height in 0_usize..100,
        ) {
            let claims: [Claim; PARTS] = std::array::from_fn(|place| Claim {
                lines: lines[place], least: least[place], heading: heading[place], is_here: here == Some(place),
            });
            let shares = shares(&claims, height);
            let used: usize = claims.iter().zip(shares).map(|(claim, share)| claim.height(share)).sum();
            prop_assert!(used <= height);
            for (claim, share) in claims.iter().zip(shares) {
                prop_assert!(share <= claim.lines);
                let more = claim.height(share + 1) - claim.height(share);
                prop_assert!(share == claim.lines || used + more > height);
            }
        }
    }
}
