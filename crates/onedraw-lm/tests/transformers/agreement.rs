//! The numbers of transformers, up to rounding.

use onedraw_lm::LanguageModel;

use super::folders::{all, append, line, stories};

/// The first of the highest.
fn best(logits: &[f32]) -> u32 {
    (0..logits.len()).fold(0, |best, token| if logits[token] > logits[best] { token } else { best }) as u32
}

#[test]
fn logits_are_those_of_transformers() {
    for folder in all().into_iter().chain([stories()]) {
        let found = line(&folder.model(), &folder.prompt);
        assert_eq!(found.len(), folder.logits.len(), "{}", folder.name);
        let differences: Vec<f32> = found.iter().zip(&folder.logits).map(|(a, b)| (a - b).abs()).collect();
        let largest = differences.iter().copied().fold(0.0, f32::max);
        println!("{}: logits differ by {largest:.1e} at most", folder.name);
        // Each of them, for the largest of numbers passes over what is no number.
        assert!(differences.iter().all(|&difference| difference < 1e-3), "{}: {largest}", folder.name);
    }
}

#[test]
fn greedy_tokens_are_those_of_transformers() {
    for folder in all().into_iter().chain([stories()]) {
        let model = folder.model();
        let mut sequence = model.start();
        let mut logits = append(&model, &mut sequence, &folder.prompt);
        let mut tokens = Vec::new();
        while tokens.len() < folder.greedy.len() {
            tokens.push(best(&logits[logits.len() - model.vocabulary()..]));
            logits = append(&model, &mut sequence, &tokens[tokens.len() - 1..]);
        }
        assert_eq!(tokens.len(), 64, "{}", folder.name);
        assert_eq!(tokens, folder.greedy, "{}", folder.name);
    }
}
