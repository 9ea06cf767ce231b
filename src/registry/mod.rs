pub mod change;
pub mod instance;
pub mod status;
