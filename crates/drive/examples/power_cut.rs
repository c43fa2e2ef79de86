//! Two drives acknowledge a write, and lose their power before any flush.
use tantalum_device::{
    Block, BlockDevice, Data, DataMut, Durability, IoError, Payload, PowerCycle,
};
use tantalum_drive::{Design, Drive};
use tantalum_rt::Runtime;

/// Writes a block, cuts the power, restores it, and tells whether the block is still there.
fn survives(preset: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let mut design = Design::preset(preset)?;
    (design.geometry.blocks, design.geometry.pages) = (64, 64); // the presets are larger
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, &design, Payload::Bytes)?;
    let read_back = runtime.block_on(async move {
        drive.power_on().await?;
        let link = drive.device();
        link.write(Block(10), Data::Bytes(&[1; 4096]), Durability::Normal).await?;

        drive.cut();
        assert_eq!(link.flush().await, Err(IoError::PowerLost));
        drive.off().await; // the capacitors are empty, or were not needed any more

        drive.power_on().await?; // recovery
        let mut block = [0; 4096];
        drive.device().read(Block(10), DataMut::Bytes(&mut block)).await?;
        Ok::<_, IoError>(block)
    })??;
    Ok(read_back == [1; 4096])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    assert!(survives("durassd")?); // a write cache behind capacitors
    assert!(!survives("volatile")?); // a write cache without
    Ok(())
}
