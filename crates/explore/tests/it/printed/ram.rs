/// Found by the crash explorer, after the recovery: command 1 is torn in its atomic unit 0: block 5 has it, block 5 has zeros, which is older
#[test]
fn ram_survives_these_cuts() {
    use tantalum_explore::{Command, Scenario};
    use tantalum_rt::Nanos;
    let subject = tantalum_explore::RamBlueprint {
        caps: tantalum_device::Caps {
            block_size: 4096,
            blocks: 96,
            thin: false,
            ack: tantalum_device::Ack::Volatile,
            flush: true,
            ordered: false,
            atomic_unit: 512,
            atomic_group: Some(tantalum_device::GroupLimit { extents: 16, bytes: 262144 }),
            payload: tantalum_device::Payload::Bytes,
        },
        command: tantalum_rt::Nanos(20000),
        jitter: tantalum_rt::Nanos(30000),
        flush: tantalum_rt::Nanos(40000),
        start: tantalum_rt::Nanos(100000),
        cache_commands: 64,
    };
    let scenario = Scenario {
        subject,
        seed: 0,
        hosts: 1,
        commands: vec![
            Command::Group(5, 1, 18),
        ],
        then: vec![],
        faults: 0,
    };
    let cuts: [Nanos; 1] = [Nanos(116024)];
    let found = scenario.cut(&cuts);
    assert!(found.is_ok(), "{found:?}");
}
