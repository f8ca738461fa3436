//! Where a given unit of mass lies: a sketch says about where, the tokens there are listed, and the mass nearer than these is summed.
//!
//! What a sketch says may be wrong, or the tokens there too many, as on a row of ties; then a radix select finds the place.

use crate::census::{between, only, up_to};
use crate::edited::Edited;
use crate::head::{Half, mass};
use crate::inquiry::Inquiry;
use crate::kernels::logit::{Logit, at_least};
use crate::kernels::passes::vectorized;
use crate::kernels::weight::Masses;
use crate::mass::Softmax;
use crate::noise::BLOCK;
use crate::order::Key;
use crate::question::{Answer, Measure, Question, Stretch};
use crate::sketch::{Bracket, Sketch};

/// A sketch that leaves more tokens than this is no help.
const LISTED: usize = 16_384;

/// A list that grew too long ends with the block in which it did, and is written four keys at a time.
const ROOM: usize = LISTED + BLOCK + 4;

/// A sketch is believed first, and if it was wrong, doubted.
pub(crate) const CAUTIONS: [f64; 2] = [1.0, 4.0];

/// Tokens up to `last`, and their mass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weighed {
    pub last: Key,
    pub softmax: Softmax,
    pub total: u64,
}

impl Inquiry<'_> {
    /// The token in which unit number `unit` of the mass lies, counted in the order from 0.
    pub(crate) fn locate_mass(&mut self, of: Weighed, unit: u64) -> Key {
        self.locate_listed(of, unit).unwrap_or_else(|| self.locate(Measure::Mass(of.softmax), unit))
    }

    fn locate_listed(&mut self, of: Weighed, unit: u64) -> Option<Key> {
        let Softmax { x_max, scale } = of.softmax;
        let from = |distance: f64| {
            let lowest = (f64::from(x_max) - distance / f64::from(scale)) as f32;
            Some(Stretch { highest: x_max, lowest: lowest.max(-f32::MAX) })
        };
        let sketch = self.sketch(of);
        CAUTIONS.iter().find_map(|&caution| {
            let unit = self.beyond(of, sketch.bracket(0.0, unit, caution), from, unit)?;
            self.select_listed(unit, Half::Upper, of.softmax)
        })
    }

    /// A sketch of tokens whose mass is known.
    pub(crate) fn sketch(&mut self, of: Weighed) -> Sketch {
        let Weighed { last, softmax, total } = of;
        self.ask(Question::Sketch { softmax });
        let lowest = (f64::from(last.logit()) - f64::from(softmax.x_max)) * f64::from(softmax.scale);
        Sketch::new(self.histogram(), lowest, total)
    }

    /// Lists the keys between the two distances of a bracket. `unit` becomes a unit of their mass; `None` if it lies nearer, or the keys are
    /// too many.
    pub(crate) fn beyond(
        &mut self,
        of: Weighed,
        bracket: Bracket,
        within: impl Fn(f64) -> Option<Stretch>,
        unit: u64,
    ) -> Option<u64> {
        if bracket.tokens > LISTED as f64 {
            return None;
        }
        // Room for the longest list at once: a later step with a longer one must not allocate.
        let keys = self.keys();
        keys.clear();
        keys.reserve(ROOM);
        let nearer = self.band(of, bracket.nearer.and_then(&within), within(bracket.farther)?);
        if self.keys().len() > LISTED {
            return None;
        }
        unit.checked_sub(nearer)
    }

    /// The place among the listed keys in which unit number `unit` of their mass lies; `None` if there is less.
    pub(crate) fn select_listed(&mut self, unit: u64, half: Half, softmax: Softmax) -> Option<Key> {
        let passes = self.passes;
        select(self.keys(), unit, |keys| vectorized!(passes, simd => mass(simd, keys, half, softmax)))
    }

    /// The mass of the inner stretch. The keys of the outer one that the inner has not are listed.
    fn band(&mut self, of: Weighed, inner: Option<Stretch>, outer: Stretch) -> u64 {
        let Weighed { last, softmax, .. } = of;
        match self.ask(Question::Band { inner, outer, last, softmax }) {
            Answer::Total(total) => total,
            _ => 0,
        }
    }
}

/// The place in which unit number `unit` of the listed mass lies; `None` if there is less.
fn select(keys: &mut [Key], mut unit: u64, mass: impl Fn(&[Key]) -> u64) -> Option<Key> {
    let mut keys = keys;
    while keys.len() > 1 {
        let middle = keys.len() / 2;
        keys.select_nth_unstable(middle);
        let (earlier, later) = keys.split_at_mut(middle);
        let mass = mass(earlier);
        keys = if unit < mass {
            earlier
        } else {
            unit -= mass;
            later
        };
    }
    keys.first().copied().filter(|&key| unit < mass(&[key]))
}

/// Lists the tokens of a block whose bit is set. Most blocks have few, and how many cannot be foreseen: the first four are written
/// without a branch.
#[inline(always)]
fn list(keys: &mut Vec<Key>, lanes: &[f32; BLOCK], first: u32, mut bits: u64) {
    let end = keys.len() + bits.count_ones() as usize;
    while keys.len() < end {
        for _ in 0..4 {
            let lane = bits.trailing_zeros() % BLOCK as u32;
            bits &= bits.wrapping_sub(1);
            keys.push(Key::new(lanes[lane as usize], first + lane));
        }
    }
    keys.truncate(end);
}

impl Edited<'_> {
    /// The mass of the inner stretch up to `last`. The keys of the outer one that the inner has not are listed, unless they are too many.
    pub(crate) fn band(
        &self,
        (inner, outer): (Option<Stretch>, Stretch),
        last: Key,
        softmax: Softmax,
        keys: &mut Vec<Key>,
    ) -> u64 {
        keys.reserve(ROOM.min(self.span.row.len() + 4));
        let last = last.min(Key::last_of(outer.lowest));
        // No logit is in a stretch from infinity on.
        let inner = inner.unwrap_or(Stretch { highest: outer.highest, lowest: f32::INFINITY });
        let (mut buffer, mut copy) = ([0.0; BLOCK], [0.0; BLOCK]);
        vectorized!(self.passes, simd => {
            let mut masses = Masses::new(simd, softmax);
            for (block, &maximum) in self.maxima().iter().enumerate() {
                if maximum < last.logit() {
                    continue;
                }
                let lanes = self.lanes_by(simd, block, &mut buffer);
                // Where only the logit tells, what an earlier cut dropped lies below its last logit, and so below the stretch.
                let mut weighed = lanes;
                let mut around = between(simd, lanes, last.logit(), inner.lowest);
                if maximum > inner.highest || last.token() != u32::MAX {
                    let listed = up_to(simd, lanes, self.span.token(block, 0), last);
                    let above = at_least(f32::load(simd, lanes), outer.highest.next_up());
                    let within = listed & between(simd, lanes, inner.lowest, inner.highest.next_up());
                    around = listed & !above & !within;
                    weighed = only(simd, lanes, within, &mut copy);
                }
                if keys.len() <= LISTED {
                    list(keys, lanes, self.span.token(block, 0), around);
                }
                masses.add_from(weighed, maximum, inner.lowest.max(last.logit()));
            }
            masses.mass()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edited::EditedMemory;
    use crate::kernels::passes::Passes;
    use crate::row::{Row, Span};
    use onedraw_testkit::rows;

    /// Every part of a vocabulary answers a sketch and a band; other questions are counted.
    struct Parts<'a> {
        parts: Vec<Edited<'a>>,
        others: u32,
    }

    impl crate::question::Answers for Parts<'_> {
        fn ask(&mut self, question: &Question, reply: &mut crate::question::Reply) {
            reply.clear();
            for part in &self.parts {
                let mut own = crate::question::Reply::default();
                own.answer = match question {
                    Question::Sketch { softmax } => {
                        part.sketch(*softmax, &mut own.histogram);
                        Answer::Histogram
                    }
                    Question::Band { inner, outer, last, softmax } => {
                        Answer::Total(part.band((*inner, *outer), *last, *softmax, &mut own.keys))
                    }
                    Question::Histogram { first, shift, width, measure } => {
                        self.others += 1;
                        part.histogram((*first, *shift, *width), *measure, &mut own.histogram);
                        Answer::Histogram
                    }
                    other => panic!("{other:?}"),
                };
                reply.absorb(&own);
            }
        }
    }

    /// How many of a row's units had to be searched for by the radix select.
    fn missed(row: &[f32], cuts: &[usize], temperature: f64, passes: Passes) -> usize {
        let mut memories: Vec<EditedMemory> = cuts.iter().map(|_| EditedMemory::default()).collect();
        let ends = cuts[1..].iter().copied().chain([row.len()]);
        let parts = cuts.iter().zip(ends).zip(&mut memories).map(|((&start, end), memory)| {
            let mut part = Edited { span: Span { row: Row::from(&row[start..end]), start }, passes, memory };
            part.reset();
            part.scan().expect("no bad logit");
            part
        });
        let mut parts = Parts { parts: parts.collect(), others: 0 };
        let mut order: Vec<Key> = (0..).zip(row).map(|(token, &x)| Key::new(x, token)).collect();
        order.retain(|&key| key < Key::END);
        order.sort_unstable();
        let softmax = Softmax::new(order[0].logit(), temperature);
        let weights: Vec<u64> = order.iter().map(|key| softmax.weight(key.logit())).collect();
        let mut missed = 0;
        for kept in [order.len(), order.len() / 2 + 1] {
            let total: u64 = weights[..kept].iter().sum();
            let of = Weighed { last: order[kept - 1], softmax, total };
            for share in [0.0, 0.01, 0.3, 0.5, 0.9, 0.95, 0.999, 1.0] {
                let unit = ((total as f64 * share) as u64).min(total - 1);
                let mut before = 0;
                let crossing = weights.iter().position(|weight| {
                    before += weight;
                    before > unit
                });
                let mut reply = crate::question::Reply::default();
                parts.others = 0;
                let located = Inquiry::new(&mut parts, &mut reply, passes).locate_mass(of, unit);
                assert_eq!(Some(located), crossing.map(|place| order[place]), "{share} of {kept}");
                // Near the end of the mass too many tokens are left to be listed.
                missed += usize::from(parts.others > 0 && share < 0.99);
            }
        }
        missed
    }

    #[test]
    fn a_unit_is_found_where_the_order_has_it() {
        for passes in Passes::supported() {
            for seed in 0..6 {
                for row in [
                    rows::gaussian(seed, 40_000, 1.0),
                    rows::peaked(seed, 40_000),
                    rows::masked(seed, 9000, 0.9),
                ] {
                    let missed = missed(&row, &[0, 100, 101, 7000], 0.8, passes);
                    assert!(missed <= 1, "{missed} of 12 missed, {passes:?}");
                }
                for row in [rows::ties(seed, 30_000, 3), rows::denormal(seed, 500), rows::extreme(seed, 3000)]
                {
                    missed(&row, &[0, 64], 1.0, passes);
                }
            }
            for row in [vec![2.5], vec![-1.0, 2.0], rows::flat(70, 3.0), rows::flat(40_000, -3.0)] {
                missed(&row, &[0], 1.0, passes);
            }
        }
    }

    #[test]
    fn units_are_selected_in_any_list() {
        let softmax = Softmax::new(4.0, 0.3);
        for distinct in [1, 2, 50, 1000] {
            let row = rows::ties(distinct as u64, 777, distinct);
            let mut keys: Vec<Key> = (0..).zip(&row).map(|(token, &x)| Key::new(x.min(4.0), token)).collect();
            let mass =
                |keys: &[Key]| vectorized!(Passes::default(), simd => mass(simd, keys, Half::Upper, softmax));
            let total = mass(&keys);
            for step in 0..100 {
                let unit = total / 100 * step;
                let selected = select(&mut keys, unit, mass).expect("there is as much");
                let earlier: Vec<Key> = keys.iter().copied().filter(|&key| key < selected).collect();
                let before = mass(&earlier);
                assert!(before <= unit && unit < before + softmax.weight(selected.logit()));
            }
            assert_eq!(select(&mut keys, total, mass), None);
        }
        assert_eq!(select(&mut [], 0, |_| 0), None);
    }
}
