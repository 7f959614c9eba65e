//! Sets of predicates as bits in 64-bit words: a statement keeps which predicates the spans of a trace satisfy.

use std::collections::BTreeSet;

/// Bits of a word.
const WORD_BITS: usize = u64::BITS as usize;

/// Assigns a bit to each predicate of a statement.
pub(super) struct Masks(Vec<usize>);

impl Masks {
    /// Creates masks for these predicates, given by their indexes.
    pub(super) fn new(used: &BTreeSet<usize>) -> Self {
        Self(used.iter().copied().collect())
    }

    /// Number of words, at least one.
    pub(super) fn words(&self) -> usize {
        self.0.len().div_ceil(WORD_BITS).max(1)
    }

    /// Returns the predicates' indexes, word by word.
    pub(super) fn predicates(&self) -> impl Iterator<Item = &[usize]> {
        self.0.chunks(WORD_BITS)
    }

    /// Returns the words with the bits of these predicates.
    pub(super) fn mask<'n>(&self, numbers: impl IntoIterator<Item = &'n usize>) -> Vec<u64> {
        let mut words = vec![0; self.words()];
        for number in numbers {
            if let Ok(bit) = self.0.binary_search(number)
                && let Some(word) = words.get_mut(bit / WORD_BITS)
            {
                *word |= 1 << (bit % WORD_BITS);
            }
        }
        words
    }

    /// Writes whether any of these predicates has its bit set in an array of words.
    pub(super) fn any_bit_set<'n>(
        &self,
        words: &str,
        numbers: impl IntoIterator<Item = &'n usize>,
    ) -> String {
        let mask = self.mask(numbers).into_iter().enumerate().filter(|(_, word)| *word != 0);
        let terms: Vec<String> =
            mask.map(|(at, word)| format!("bitAnd({words}[{}], {word}) != 0", at + 1)).collect();
        if terms.is_empty() { "0".to_owned() } else { format!("({})", terms.join(" OR ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_predicate_has_a_bit_of_its_own() {
        let used: BTreeSet<usize> = (0..200).map(|number| number * 3).collect();
        let masks = Masks::new(&used);
        assert_eq!((masks.words(), masks.predicates().count()), (4, 4));
        assert!(masks.predicates().flatten().eq(&used));
        let mut all = vec![0; 4];
        for number in &used {
            let mask = masks.mask([number]);
            assert_eq!(mask.iter().map(|word| word.count_ones()).sum::<u32>(), 1);
            for (all, word) in all.iter_mut().zip(mask) {
                assert_eq!(*all & word, 0);
                *all |= word;
            }
        }
        assert_eq!(masks.mask(&used), all);
        assert_eq!(masks.mask([&0, &192, &7]), [1, 1, 0, 0]);
        assert_eq!(
            masks.any_bit_set("w", [&3, &0, &597]),
            "(bitAnd(w[1], 3) != 0 OR bitAnd(w[4], 128) != 0)"
        );
        assert_eq!(masks.any_bit_set("w", []), "0");
        assert_eq!(Masks::new(&BTreeSet::new()).mask([]), [0]);
    }
}
