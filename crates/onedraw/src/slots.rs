//! Where a batch keeps its sequences: numbered slots, and ids that are not used again.
//!
//! [`Batch`](crate::Batch) keeps its sequences here, and so do batches elsewhere, such as one on a GPU: `T`
//! is what such a batch knows of a sequence.

/// Names a sequence of a batch. It is not used again after the sequence is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequenceId {
    slot: u32,
    generation: u32,
}

impl SequenceId {
    /// Names no sequence of any batch.
    pub const NOBODY: Self = Self { slot: u32::MAX, generation: u32::MAX };

    /// The number of the slot that the sequence has, which a later sequence may have again: see
    /// [`Slots::next_slot`].
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// The id as a number, for callers in other languages.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// The id of a number that [`SequenceId::to_bits`] gave. Any other number names nobody, or somebody else.
    pub fn from_bits(bits: u64) -> Self {
        Self { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

#[derive(Clone, Debug)]
struct Slot<T> {
    /// How many members have left the slot. The id of a member has this number too, so that an older id finds
    /// nothing.
    generation: u32,
    member: Option<T>,
}

/// Members by their ids. Every operation takes constant time, but for [`Slots::ids`]. A slot that `GENERATIONS`
/// members have left after its first is not used again, so that no id ever names two members.
///
/// ```
/// use onedraw::slots::Slots;
/// let mut slots = Slots::new();
/// let first = slots.insert("first");
/// assert_eq!(slots.remove(first), Some("first"));
/// let second = slots.insert("second");
/// assert_eq!(first.slot(), second.slot());
/// assert_eq!((slots.get(first), slots.get(second)), (None, Some(&"second")));
/// ```
#[derive(Clone, Debug)]
pub struct Slots<T, const GENERATIONS: u32 = { u32::MAX }> {
    slots: Vec<Slot<T>>,
    /// Slots without a member. The last one is used next.
    free: Vec<u32>,
    /// The number of slots that are not used again.
    retired: usize,
}

impl<T, const GENERATIONS: u32> Default for Slots<T, GENERATIONS> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T> Slots<T> {
    /// No members, in slots that are used as often as a number of 32 bits can tell.
    pub const fn new() -> Self {
        Self::empty()
    }
}

impl<T, const GENERATIONS: u32> Slots<T, GENERATIONS> {
    /// No members.
    pub const fn empty() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), retired: 0 }
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.retired
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slot that the next member gets: one that is free, or else a new one. So, but for the slots that are not
    /// used again, all numbers of slots are below the largest number of members that there were at once.
    pub fn next_slot(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    /// Adds a member; returns its id.
    pub fn insert(&mut self, member: T) -> SequenceId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, member: None });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.member = Some(member);
        SequenceId { slot, generation: place.generation }
    }

    /// Removes a member and returns it; `None` if it is not there.
    pub fn remove(&mut self, id: SequenceId) -> Option<T> {
        let place = self.slots.get_mut(id.slot as usize).filter(|place| place.generation == id.generation)?;
        let member = place.member.take()?;
        if place.generation < GENERATIONS {
            place.generation += 1;
            self.free.push(id.slot);
        } else {
            self.retired += 1;
        }
        Some(member)
    }

    /// A member; `None` if it is not there.
    pub fn get(&self, id: SequenceId) -> Option<&T> {
        let place = self.slots.get(id.slot as usize).filter(|place| place.generation == id.generation)?;
        place.member.as_ref()
    }

    /// A member, to be changed; `None` if it is not there.
    pub fn get_mut(&mut self, id: SequenceId) -> Option<&mut T> {
        let place = self.slots.get_mut(id.slot as usize).filter(|place| place.generation == id.generation)?;
        place.member.as_mut()
    }

    /// The ids of all members, in the order of their slots.
    pub fn ids(&self) -> impl Iterator<Item = SequenceId> {
        let taken = self.slots.iter().zip(0..).filter(|(place, _)| place.member.is_some());
        taken.map(|(place, slot)| SequenceId { slot, generation: place.generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_not_used_again() {
        let mut slots = Slots::new();
        let first = slots.insert('a');
        let second = slots.insert('b');
        assert_eq!((slots.len(), slots.is_empty()), (2, false));
        assert_eq!((slots.remove(first), slots.remove(first)), (Some('a'), None));
        let third = slots.insert('c');
        assert_eq!((third.slot(), slots.get(first), slots.get(third)), (first.slot(), None, Some(&'c')));
        assert_eq!(slots.get_mut(first), None);
        *slots.get_mut(second).expect("it is there") = 'd';
        assert_eq!(slots.get(second), Some(&'d'));
        assert_eq!(slots.get(SequenceId::NOBODY), None);
        assert_eq!((first.to_bits(), third.to_bits()), (0, 1 << 32), "the second in slot 0");
        assert_eq!(SequenceId::from_bits(third.to_bits()), third);
        assert_eq!(slots.ids().collect::<Vec<_>>(), [third, second]);
        slots.remove(third);
        assert_eq!(slots.ids().collect::<Vec<_>>(), [second]);
    }

    #[test]
    fn slots_are_numbered_without_gaps() {
        let mut slots = Slots::new();
        let ids: Vec<_> = (0..3)
            .map(|number| {
                assert_eq!(slots.next_slot(), number);
                slots.insert(number)
            })
            .collect();
        slots.remove(ids[0]);
        slots.remove(ids[2]);
        assert_eq!(slots.next_slot(), 2, "the slot that was left last");
        assert_eq!(slots.insert(7).slot(), 2);
        assert_eq!(slots.next_slot(), 0);
        slots.insert(8);
        assert_eq!((slots.next_slot(), slots.len()), (3, 3));
    }

    #[test]
    fn a_slot_is_used_a_number_of_times() {
        let mut slots = Slots::<u32, 2>::empty();
        let other = slots.insert(7);
        let ids: Vec<SequenceId> = (0..5)
            .map(|member| {
                let id = slots.insert(member);
                assert_eq!((slots.remove(id), slots.remove(id), slots.len()), (Some(member), None, 1));
                id
            })
            .collect();
        assert_eq!(ids.iter().map(|id| id.slot()).collect::<Vec<_>>(), [1, 1, 1, 2, 2]);
        assert!((1..5).all(|later| !ids[..later].contains(&ids[later])));
        assert!(ids.iter().all(|&id| slots.get(id).is_none()) && slots.get(other) == Some(&7));
        assert_eq!((slots.next_slot(), slots.ids().collect::<Vec<_>>()), (2, vec![other]));
    }
}
