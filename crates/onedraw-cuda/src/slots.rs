//! Numbered places for sequences, and names that are not used again.

/// Names a sequence of a [`Batch`](crate::Batch). Not used again after the sequence is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequenceId {
    slot: u32,
    generation: u32,
}

impl SequenceId {
    /// Names no sequence of any batch.
    pub const NOBODY: Self = Self { slot: u32::MAX, generation: u32::MAX };

    /// Its place in the device's array of sequences.
    pub(crate) fn slot(self) -> u32 {
        self.slot
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    member: Option<T>,
}

/// So many places and no more: the device's array has one for each.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// Free places, the next one last.
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let slots = (0..capacity).map(|_| Slot { generation: 0, member: None }).collect();
        Self { slots, free: (0..capacity as u32).rev().collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// The place that the next member gets.
    pub(crate) fn next(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// `None` if there is no room.
    pub(crate) fn insert(&mut self, member: T) -> Option<SequenceId> {
        let slot = self.free.pop()?;
        let place = &mut self.slots[slot as usize];
        place.member = Some(member);
        Some(SequenceId { slot, generation: place.generation })
    }

    pub(crate) fn remove(&mut self, id: SequenceId) -> Option<T> {
        let place = self.slots.get_mut(id.slot as usize).filter(|place| place.generation == id.generation)?;
        let member = place.member.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.slot);
        Some(member)
    }

    pub(crate) fn get(&self, id: SequenceId) -> Option<&T> {
        let place = self.slots.get(id.slot as usize).filter(|place| place.generation == id.generation)?;
        place.member.as_ref()
    }

    /// The names of all members.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SequenceId> {
        self.slots.iter().zip(0..).filter(|(place, _)| place.member.is_some()).map(|(place, slot)| {
            let generation = place.generation;
            SequenceId { slot, generation }
        })
    }

    pub(crate) fn get_mut(&mut self, id: SequenceId) -> Option<&mut T> {
        let place = self.slots.get_mut(id.slot as usize).filter(|place| place.generation == id.generation)?;
        place.member.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_used_again() {
        let mut slots = Slots::new(2);
        let first = slots.insert('a').expect("room");
        let second = slots.insert('b').expect("room");
        assert_eq!((slots.insert('c'), slots.len(), slots.room(), slots.next()), (None, 2, 0, None));
        assert_eq!((slots.remove(first), slots.remove(first)), (Some('a'), None));
        assert_eq!(slots.next(), Some(first.slot()));
        let third = slots.insert('c').expect("room");
        assert_eq!((third.slot(), slots.get(first), slots.get(third)), (first.slot(), None, Some(&'c')));
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.get(second), Some(&'b'));
        assert_eq!(slots.get(SequenceId::NOBODY), None);
        assert_eq!(slots.ids().collect::<Vec<_>>(), [third, second]);
        slots.remove(third);
        assert_eq!(slots.ids().collect::<Vec<_>>(), [second]);
    }
}
