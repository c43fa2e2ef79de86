/// Found by the crash explorer, after the recovery: block 236 lost command 1, which was covered by a flush: found zeros, which is older
#[test]
fn raid0_of_3_ram_survives_these_cuts() {
    use tantalum_explore::{Command, Scenario};
    use tantalum_rt::Nanos;
    let subject = tantalum_explore::Raid0Blueprint {
    member: tantalum_explore::RamBlueprint {
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
    },
    members: 3,
    chunk: 2,
    };
    let scenario = Scenario {
        subject,
        seed: 0,
        hosts: 1,
        commands: vec![
            Command::Write(236, 1),
            Command::Flush,
        ],
        then: vec![],
        faults: 0,
    };
    let cuts: [Nanos; 1] = [Nanos(2070926)];
    let found = scenario.cut(&cuts);
    assert!(found.is_ok(), "{found:?}");
}
