//! What README.md shows of a drive in one's own program, line for line.

use tantalum_device::{Block, BlockDevice, Data, DataMut, Durability, Payload, PowerCycle};
use tantalum_drive::{Design, Drive};
use tantalum_rt::Runtime;

#[test]
fn a_block_survives_as_the_readme_says() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let shown = async move {
        let drive = Drive::new(&rt, &Design::preset("durassd")?, Payload::Bytes)?;
        drive.power_on().await?;
        let link = drive.device();
        link.write(Block(10), Data::Bytes(&[1; 4096]), Durability::Normal).await?;
        drive.cut(); // before any flush
        drive.off().await;
        drive.power_on().await?; // recovery
        let mut block = [0; 4096];
        drive.device().read(Block(10), DataMut::Bytes(&mut block)).await?;
        assert_eq!(block, [1; 4096]); // with "volatile" it is gone
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    runtime.block_on(shown).expect("it does not wait for ever").expect("no command fails");
}
