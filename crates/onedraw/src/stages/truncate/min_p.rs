//! Min-p: keeps tokens at least `min_p` times as likely as the best (Nguyen and others, Turning up the heat,
//! 2024).

use crate::numeric::key::Key;
use crate::numeric::math::ln;
use crate::numeric::temperature::Temperature;

/// A checked `min_p`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinP {
    /// ln(min_p).
    threshold: f64,
}

impl MinP {
    /// `None` where it is off.
    pub(crate) fn new(min_p: f64) -> Option<Self> {
        (min_p > 0.0).then(|| Self { threshold: ln(min_p) })
    }

    /// The lowest difference `x − x_max` that stays, `T·ln(min_p)`.
    pub fn threshold(&self, temperature: Temperature) -> f64 {
        temperature.value * self.threshold
    }

    /// The last place of the smallest logit x with `f64(x) − f64(x_max) ≥ T·ln(min_p)`.
    pub(crate) fn cut(&self, x_max: f32, temperature: Temperature) -> Key {
        Key::last_within(x_max, self.threshold(temperature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_is_the_smallest_kept_logit() {
        let one = Temperature::ONE;
        for (x_max, min_p, temperature) in
            [(3.0, 0.1, 1.0), (-7.5, 0.5, 0.3), (1e-40, 0.9, 2.0), (3e38, 1e-300, 1e6)]
        {
            let temperature = one.then(temperature);
            let min_p = MinP::new(min_p).expect("on");
            let x = min_p.cut(x_max, temperature).logit();
            let keeps = |x: f32| f64::from(x) - f64::from(x_max) >= temperature.value * min_p.threshold;
            assert!(keeps(x) && !keeps(x.next_down()), "{x_max} {x}");
        }
        assert_eq!(MinP::new(0.0), None);
        assert_eq!(MinP::new(1.0).expect("on").cut(2.0, one), Key::last_of(2.0));
        // Nothing is too low: every token alive stays.
        assert_eq!(MinP { threshold: -1e300 }.cut(2.0, one), Key::END);
    }
}
