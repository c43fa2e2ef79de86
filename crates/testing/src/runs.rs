/// What a device says of the places that hold nothing, asked from the first of `blocks` on: where each
/// run of blocks begins that are alike, and whether it is a hole. `told` asks at a block: for how many
/// blocks the answer is, and the answer.
///
/// # Panics
/// If an answer is for no block.
pub async fn runs(blocks: u64, told: impl AsyncFn(u64) -> (u64, bool)) -> Vec<(u64, bool)> {
    let (mut at, mut runs) = (0, Vec::new());
    while at < blocks {
        let (count, hole) = told(at).await;
        assert!(count > 0, "an answer for no block, at {at}");
        runs.push((at, hole));
        at += count;
    }
    runs.dedup_by_key(|(_, hole)| *hole);
    runs
}
