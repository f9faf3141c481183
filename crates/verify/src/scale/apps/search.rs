//! The cities of TSP, the bound, and the recursion (apps/tsp/distances.c, `solve` in tsp.c).

/// Cities at most.
const MAX_CITIES: usize = 20;

/// What every node computes from the seed.
#[derive(Debug)]
pub(super) struct Cities {
    pub(super) count: u8,
    distance: [[u32; MAX_CITIES]; MAX_CITIES],
    least_step: [u32; MAX_CITIES],
}

/// A path from city 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tour {
    pub(super) count: u8,
    last: u8,
    visited: u32,
    length: u32,
    /// No complete tour that begins so is shorter.
    pub(super) bound: u32,
}

/// What the recursion did: elements are cities that were looked at.
#[derive(Debug, Default)]
pub(super) struct Solved {
    pub(super) elements: u64,
    /// Each better tour: after how many elements it was found, and its length.
    pub(super) better: Vec<(u64, u32)>,
}

impl Tour {
    pub(super) const ROOT: Self = Self { count: 1, last: 0, visited: 1, length: 0, bound: 0 };
}

impl Cities {
    pub(super) fn new(count: u8, seed: u64) -> Self {
        let all = usize::from(count);
        let coordinate = |number: usize| 10_000.0 * scramble_unit(seed << 32 | number as u64);
        let place = |city| (coordinate(2 * city), coordinate(2 * city + 1));
        let mut distance = [[0; MAX_CITIES]; MAX_CITIES];
        let mut least_step = [u32::MAX; MAX_CITIES];
        for i in 0..all {
            for j in (0..all).filter(|&j| j != i) {
                let ((xi, yi), (xj, yj)) = (place(i), place(j));
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "from 0 to 14,143"
                )]
                let length = (xi - xj).hypot(yi - yj).round() as u32;
                distance[i][j] = length;
                least_step[i] = least_step[i].min(length);
            }
        }
        Self { count, distance, least_step }
    }

    /// Cities that a tour has not visited.
    fn rest(&self, visited: u32) -> impl Iterator<Item = u8> + use<> {
        (0..self.count).filter(move |city| visited >> city & 1 == 0)
    }

    fn step(&self, from: u8, to: u8) -> u32 {
        self.distance[usize::from(from)][usize::from(to)]
    }

    fn least(&self, from: u8) -> u32 {
        self.least_step[usize::from(from)]
    }

    /// Every tour that goes one city further and may still be shorter than `best`.
    pub(super) fn expand(&self, parent: &Tour, best: u32) -> Vec<Tour> {
        let tree = self.spanning_tree(parent.visited);
        let further = self.rest(parent.visited).map(|next| {
            let length = parent.length + self.step(parent.last, next);
            Tour {
                count: parent.count + 1,
                last: next,
                visited: parent.visited | 1 << next,
                length,
                bound: length + tree,
            }
        });
        further.filter(|tour| tour.bound < best).collect()
    }

    /// The least weight of a tree over city 0 and those not visited: the way on and home is one.
    fn spanning_tree(&self, visited: u32) -> u32 {
        let mut outside: Vec<(u8, u32)> =
            self.rest(visited).map(|city| (city, self.step(0, city))).collect();
        let mut total = 0;
        while let Some(at) = (0..outside.len()).min_by_key(|&at| outside[at].1) {
            let (city, near) = outside.swap_remove(at);
            total += near;
            for (other, near) in &mut outside {
                *near = self.step(city, *other).min(*near);
            }
        }
        total
    }

    /// Completes a tour in every way that may be shorter than `best`.
    pub(super) fn solve(&self, tour: &Tour, mut best: u32) -> Solved {
        let steps = self.rest(tour.visited).map(|city| self.least(city)).sum::<u32>();
        let mut solved = Solved::default();
        self.recurse(tour, steps + self.least(tour.last), &mut best, &mut solved);
        solved
    }

    /// `steps`: the least steps out of the last city and out of each one not visited.
    fn recurse(&self, tour: &Tour, steps: u32, best: &mut u32, solved: &mut Solved) {
        if tour.count == self.count {
            let length = tour.length + self.step(tour.last, 0);
            if length < *best {
                *best = length;
                solved.better.push((solved.elements, length));
            }
            return;
        }
        let left = steps - self.least(tour.last);
        for next in self.rest(tour.visited) {
            solved.elements += 1;
            let length = tour.length + self.step(tour.last, next);
            if length + left < *best {
                let (count, visited) = (tour.count + 1, tour.visited | 1 << next);
                let longer = Tour { count, last: next, visited, length, bound: 0 };
                self.recurse(&longer, left, best, solved);
            }
        }
    }
}

/// `scramble` of apps/common/app.h, to a number in [0, 1).
fn scramble_unit(x: u64) -> f64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd134_2543_de82_ef95);
    let x = (x ^ x >> 29).wrapping_mul(0xaf25_1af3_b0f0_25b5);
    #[expect(clippy::cast_precision_loss, reason = "53 bits")]
    let mantissa = ((x ^ x >> 32) >> 11) as f64;
    mantissa / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recursion_finds_a_shortest_tour_whatever_bound_it_begins_with() {
        let cities = Cities::new(9, 130);
        let from = |best| cities.solve(&Tour::ROOT, best).better.last().map(|better| better.1);
        let shortest = from(u32::MAX).unwrap();
        assert_eq!(from(shortest + 1), Some(shortest));
        assert_eq!(from(shortest), None);
        // No bound of a tour on the way to it exceeds it.
        let children = cities.expand(&Tour::ROOT, u32::MAX);
        assert!(children.iter().any(|tour| tour.bound <= shortest));
        let solve = |tour| cities.solve(tour, u32::MAX).better.last().map(|better| better.1);
        assert_eq!(children.iter().filter_map(solve).min(), Some(shortest));
    }
}
