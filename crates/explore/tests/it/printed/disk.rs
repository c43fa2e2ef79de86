/// Found by the crash explorer, after the recovery: block 394 lost command 1, which was covered by a flush: found zeros, which is older
#[test]
fn disk_survives_these_cuts() {
    use tantalum_explore::{Command, Scenario};
    use tantalum_rt::Nanos;
    let subject = tantalum_explore::DiskBlueprint {
        model: tantalum_device::DiskModel { block_bytes: 4096, blocks: 480, rpm: 15000, track_blocks: 120, heads: 4, skew_blocks: 0, seek_track_us: 600, seek_full_us: 7350, write_settle_us: 500, command_us: 100, prepares_ahead: false, interface_mb_s: 300, queue_depth: 32, queue_window: 0, cache_kib: 1024, write_cache: true, cache_window: 64, expiry_ms: 500, spin_up_ms: 3 },
        payload: tantalum_device::Payload::Stamps,
        shared_bus_mb_s: None,
    };
    let scenario = Scenario {
        subject,
        seed: 0,
        hosts: 1,
        commands: vec![
            Command::Write(394, 1),
            Command::Flush,
        ],
        then: vec![],
        faults: 0,
    };
    let cuts: [Nanos; 1] = [Nanos(5133333)];
    let found = scenario.cut(&cuts);
    assert!(found.is_ok(), "{found:?}");
}
