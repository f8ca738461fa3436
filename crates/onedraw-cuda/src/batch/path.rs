//! How often text was taken back, and what must not be drawn again.

/// The round of the noise has so many bits.
const ROUND: u32 = 0x00ff_ffff;

/// How often a sequence's text was taken back because of what was drawn, and the tokens that must not be drawn again.
/// What mirostat learned is on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// The rounds, each with the number of output tokens from which on it holds.
    rounds: Vec<(u32, u32)>,
    /// Tokens, each with the number of output tokens before it.
    bans: Vec<(u32, u32)>,
}

impl Default for Path {
    fn default() -> Self {
        Self { rounds: vec![(0, 0)], bans: Vec::new() }
    }
}

impl Path {
    pub(super) fn round(&self) -> u32 {
        self.rounds.last().map_or(0, |&(_, round)| round)
    }

    pub(super) fn rewind(&mut self, length: u32) {
        self.rounds.retain(|&(position, _)| position <= length);
        self.bans.retain(|&(position, _)| position <= length);
    }

    pub(super) fn take_back(&mut self, length: u32, token: u32) {
        let round = (self.round() + 1) & ROUND;
        self.rewind(length);
        self.rounds.retain(|&(position, _)| position < length);
        self.rounds.push((length, round));
        self.bans.push((length, token));
    }

    /// The tokens that are banned after so many.
    pub(super) fn bans_at(&self, length: u32) -> Vec<u32> {
        self.bans.iter().filter(|&&(position, _)| position == length).map(|&(_, token)| token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_back_as_on_the_cpu() {
        let mut path = Path::default();
        path.take_back(5, 77);
        path.take_back(5, 78);
        assert_eq!((path.round(), path.bans_at(5), path.bans_at(4)), (2, vec![77, 78], vec![]));
        path.take_back(3, 9);
        assert_eq!((path.round(), path.bans_at(5), path.bans_at(3)), (3, vec![], vec![9]));
        path.take_back(8, 1);
        path.rewind(7);
        assert_eq!(
            (path.round(), path.bans_at(8), path.bans_at(3)),
            (3, vec![], vec![9]),
            "the ban still stands"
        );
        path.rewind(3);
        assert_eq!((path.round(), path.bans_at(3)), (3, vec![9]));
        path.rewind(2);
        assert_eq!(path, Path::default());
        path.rounds = vec![(0, ROUND)];
        path.take_back(0, 4);
        assert_eq!(path.round(), 0, "as many bits as the noise has");
    }
}
