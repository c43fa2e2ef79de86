//! Slots with generations: small numbers that can be reused. The holder of an old key never reaches
//! the slot's new content (invariant 3).

/// A key: slot and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub slot: u32,
    pub generation: u32,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Slots that a slab has room for from the beginning. It is small, because many runtimes live only
/// shortly.
const ROOM: usize = 16;

/// A slab. Freed slots are reused last in, first out.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { slots: Vec::with_capacity(ROOM), free: Vec::with_capacity(ROOM) }
    }

    /// The key that the next [`Slab::insert`] will give.
    pub fn next_key(&self) -> Key {
        match self.free.last() {
            Some(&slot) => Key { slot, generation: self.slots[slot as usize].generation },
            None => Key { slot: self.slots.len() as u32, generation: 0 },
        }
    }

    pub fn insert(&mut self, value: T) -> Key {
        let key = self.next_key();
        if self.free.pop().is_some() {
            self.slots[key.slot as usize].value = Some(value);
        } else {
            self.slots.push(Slot { generation: 0, value: Some(value) });
        }
        key
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation == key.generation { slot.value.as_mut() } else { None }
    }

    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.slot as usize)?;
        if slot.generation == key.generation { slot.value.as_ref() } else { None }
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.slot);
        Some(value)
    }

    /// All that is there, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, s)| {
            let key = Key { slot: slot as u32, generation: s.generation };
            s.value.as_ref().map(|v| (key, v))
        })
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}
