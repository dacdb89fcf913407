//! Similarity of two vectors: 1 for equal direction or place, towards 0 for opposite or distant
//! ones.

use model::value;

/// A measure of nearness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Similarity {
    /// By the angle; no number (NaN) where a vector is zero.
    Cosine,
    /// By the distance.
    Euclidean,
    /// By the product, of vectors of length 1.
    DotProduct,
}

impl Similarity {
    /// Of the bytes of two vectors of floats of one dimension.
    pub(crate) fn of(self, a: &[u8], b: &[u8]) -> f32 {
        let (mut dot, mut a_square, mut b_square, mut distance) = (0.0, 0.0, 0.0, 0.0);
        for (a, b) in a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0) {
            let decoded = (value::decode_f32(a), value::decode_f32(b));
            let (Some(a), Some(b)) = decoded else { continue };
            let (a, b) = (f64::from(a), f64::from(b));
            dot += a * b;
            a_square += a * a;
            b_square += b * b;
            distance += (a - b) * (a - b);
        }
        let similarity = match self {
            Similarity::Cosine => (1.0 + dot / (a_square * b_square).sqrt()) / 2.0,
            Similarity::Euclidean => 1.0 / (1.0 + distance),
            Similarity::DotProduct => (1.0 + dot) / 2.0,
        };
        similarity as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(items: &[f32]) -> Vec<u8> {
        items.iter().flat_map(|item| item.to_be_bytes()).collect()
    }

    #[test]
    fn known_values() {
        let check = |similarity: Similarity, a: &[f32], b: &[f32], expected: f32| {
            let found = similarity.of(&vector(a), &vector(b));
            assert!((found - expected).abs() < 1e-6, "{similarity:?} {a:?} {b:?}: {found}");
        };
        check(Similarity::Cosine, &[0.1, 0.2], &[0.1, 0.2], 1.0);
        check(Similarity::Cosine, &[0.1, 0.2], &[-0.1, -0.2], 0.0);
        check(Similarity::Cosine, &[0.1, 0.2], &[0.9, 0.8], 0.964_238);
        check(Similarity::Euclidean, &[0.1, 0.2], &[-0.1, -0.2], 0.833_333);
        check(Similarity::Euclidean, &[0.1, 0.2], &[0.9, 0.8], 0.5);
        check(Similarity::DotProduct, &[0.1, 0.2], &[0.1, 0.2], 0.525);
        check(Similarity::DotProduct, &[0.1, 0.2], &[0.9, 0.8], 0.625);
        assert!(Similarity::Cosine.of(&vector(&[0.0]), &vector(&[1.0])).is_nan());
    }
}
