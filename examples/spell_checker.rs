//! A spell checker: the use that first made Bloom filters known. A dictionary becomes one small block. Words that the filter reports
//! as absent are certainly misspelt; about one misspelt word in a thousand is a false positive.
//!
//! ```sh
//! cargo run --release --example spell_checker -- [DICTIONARY [TEXT]]
//! ```
//!
//! A dictionary has one word per line, or is any text. The default is the text of FORMAT.md.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;

use sstfilter::{BuildContext, FalsePositiveRate, FilterBlock, FixedPolicy, KeyHasher};

const DICTIONARY: &str = include_str!("../FORMAT.md");
const TEXT: &str = "A reader with a damagd trailer must not answer absent for a kee: it must compare every cheksum of \
                    the payload once, and a cut blokc is never a filter of no keys.";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dictionary = arguments.next().map_or_else(|| Ok(DICTIONARY.to_owned()), fs::read_to_string)?;
    let text = arguments.next().map_or_else(|| Ok(TEXT.to_owned()), fs::read_to_string)?;

    let hasher = KeyHasher::default();
    let known: BTreeSet<String> = words(&dictionary).collect();
    let policy = FixedPolicy::ribbon(FalsePositiveRate::new(0.001)?)?;
    let mut builder = policy.builder(&BuildContext::new(&hasher));
    known.iter().for_each(|word| builder.add_key(word.as_bytes()));
    let built = builder.finish();
    let block = built.block.ok_or("no filter was built")?;
    println!(
        "{} words in {} bytes instead of {}: {:.2} bits a word",
        known.len(),
        block.len(),
        known.iter().map(String::len).sum::<usize>(),
        built.report.bits_per_key(),
    );

    // At run time, a checker needs only the block.
    let filter = FilterBlock::load(&block, &hasher)?;
    let is_known = |word: &str| filter.may_contain(hasher.hash(word.as_bytes()));
    for word in words(&text).filter(|word| !is_known(word)) {
        let suggestions: Vec<String> = edits(&word).into_iter().filter(|edit| is_known(edit)).collect();
        println!("{word}? {}", suggestions.join(", "));
    }
    Ok(())
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// Returns all words one edit away: a letter dropped, added, replaced, or swapped with the next.
fn edits(word: &str) -> BTreeSet<String> {
    let letters: Vec<char> = word.chars().collect();
    let mut found = BTreeSet::new();
    for at in 0..=letters.len() {
        let (left, right) = letters.split_at(at);
        let mut add = |parts: &[&[char]]| found.insert(parts.concat().iter().collect::<String>());
        for letter in 'a'..='z' {
            add(&[left, &[letter], right]);
            if let [_, rest @ ..] = right {
                add(&[left, &[letter], rest]);
            }
        }
        if let [_, rest @ ..] = right {
            add(&[left, rest]);
        }
        if let [one, other, rest @ ..] = right {
            add(&[left, &[*other, *one], rest]);
        }
    }
    found.remove(word);
    found
}
