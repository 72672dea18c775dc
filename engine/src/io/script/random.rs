//! The numbers a scripted world draws from its seed. Never used outside it, never from the host's entropy.

/// SplitMix64: any seed is a good one, the same seed gives the same numbers for ever.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of `0..end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "something to draw from");
        self.next() % end
    }

    pub(super) fn flip(&mut self) -> bool {
        self.next() & 1 == 1
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let index = self.below(last as u64 + 1);
            items.swap(usize::try_from(index).expect("below a length"), last);
        }
    }
}
