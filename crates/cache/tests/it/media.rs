//! Media that hold whatever they like: the same as the fuzz target, and its corpus.

#[path = "../../../../fuzz/src/cache.rs"]
mod cache;
#[path = "../../../../fuzz/src/image.rs"]
mod image;

use proptest::prelude::*;

#[test]
#[allow(clippy::disallowed_methods, reason = "the corpus is files")]
fn the_corpus_of_the_fuzz_target_passes() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/cache");
    let files: Vec<_> = std::fs::read_dir(corpus).expect("a corpus").collect();
    assert!(files.len() >= 10, "{} inputs", files.len());
    for file in files {
        let path = file.expect("a file").path();
        println!("{}", path.display());
        cache::media(&std::fs::read(path).expect("its content"));
    }
}

// As many cases as `PROPTEST_CASES` says.
proptest! {
    #[test]
    fn whatever_is_changed_is_refused_or_has_versions_of_its_pages(
        input in proptest::collection::vec(any::<u8>(), 1..200),
    ) {
        cache::media(&input);
    }
}
