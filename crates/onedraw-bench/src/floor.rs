//! The floor: the least that anybody does who looks at every logit.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, f32x16};

/// The largest logit: every one loaded once, by the widest vectors there are, and nothing else. A tail of
/// fewer than 128 is left out, which no time can show.
pub fn bare_maximum(level: Level, row: &[f32]) -> f32 {
    #[inline(always)]
    fn scan<S: Simd>(simd: S, row: &[f32]) -> f32 {
        let load = |lanes: &[f32; 16]| f32x16::load_array_ref(simd, lanes);
        let lowest = f32x16::splat(simd, f32::NEG_INFINITY);
        // Eight that do not wait for each other.
        let (mut a, mut b, mut c, mut d) = (lowest, lowest, lowest, lowest);
        let (mut e, mut f, mut g, mut h) = (lowest, lowest, lowest, lowest);
        for chunk in row.as_chunks::<128>().0 {
            let [k, l, m, n, o, p, q, r] = chunk.as_chunks::<16>().0 else { continue };
            (a, b, c, d) = (a.max(load(k)), b.max(load(l)), c.max(load(m)), d.max(load(n)));
            (e, f, g, h) = (e.max(load(o)), f.max(load(p)), g.max(load(q)), h.max(load(r)));
        }
        let best = a.max(b).max(c.max(d)).max(e.max(f).max(g.max(h)));
        best.as_slice().iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a })
    }
    dispatch!(level, simd => scan(simd, row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_maximum() {
        let mut row: Vec<f32> = (0..1280).map(|i| (i * 7919 % 1280) as f32).collect();
        assert_eq!(bare_maximum(Level::new(), &row), 1279.0);
        for place in [0, 127, 128, 700, 1279] {
            let before = std::mem::replace(&mut row[place], 5000.0);
            assert_eq!(bare_maximum(Level::new(), &row), 5000.0);
            row[place] = before;
        }
    }
}
