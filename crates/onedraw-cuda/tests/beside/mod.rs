//! Random sequences and rows, and a batch on the device beside one on the CPU.
#![allow(unsafe_code)]

pub mod cases;
pub mod twins;

use std::ops::Deref;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use half::{bf16, f16};
use onedraw::Row;
use onedraw_cuda::cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr};
use onedraw_cuda::{CudaError, Device, Dtype, Mask, Matrix};

/// The first device, for one test at a time: to wait for a device while a graph is captured on it is an
/// error.
pub struct Held {
    device: Device,
    _alone: MutexGuard<'static, ()>,
}

impl Deref for Held {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

/// Where there is no driver the test is skipped, and says so, unless `ONEDRAW_CUDA_REQUIRED` names the one
/// that must be there.
pub fn device() -> Option<Held> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let required = std::env::var("ONEDRAW_CUDA_REQUIRED").ok();
    match Device::new(0) {
        Ok(device) => {
            if let Some(name) = required {
                assert_eq!(device.context().name(), Ok(name));
            }
            Some(Held { device, _alone: alone })
        }
        Err(error @ CudaError::NoDriver) if required.is_none() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether this process has a driver that lacks it: only the emulated driver can lack anything (`emulate/driver.cpp`).
/// If not, the test runs again in one that has: its answer is this one's. `test` is its name with its modules.
pub fn lacks(what: &str, test: &str) -> bool {
    if std::env::var("EMULATED_LACK").is_ok_and(|lack| lack == what) {
        return true;
    }
    if std::env::var("ONEDRAW_CUDA_REQUIRED").is_ok_and(|name| name == "a CPU") {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program).args(["--exact", test]).env("EMULATED_LACK", what).output();
        let output = child.expect("a child");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    } else {
        println!("skipped: the driver is not the emulated one");
    }
    false
}

/// How often random tests go round: 20 times, or as `ONEDRAW_CUDA_ROUNDS` says.
pub fn rounds() -> u64 {
    std::env::var("ONEDRAW_CUDA_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20)
}

/// Rows on the host, in one of the types.
#[derive(Clone, Debug)]
pub enum Rows {
    F32(Vec<Vec<f32>>),
    F16(Vec<Vec<f16>>),
    BF16(Vec<Vec<bf16>>),
}

impl Rows {
    /// Rounded to the type. What is finite stays so.
    pub fn new(dtype: Dtype, rows: Vec<Vec<f32>>) -> Self {
        let f16s = |x: f32| if x.is_finite() { f16::from_f32(x.clamp(-6e4, 6e4)) } else { f16::from_f32(x) };
        let bf16s =
            |x: f32| if x.is_finite() { bf16::from_f32(x.clamp(-3e38, 3e38)) } else { bf16::from_f32(x) };
        match dtype {
            Dtype::F32 => Self::F32(rows),
            Dtype::F16 => {
                Self::F16(rows.into_iter().map(|row| row.into_iter().map(f16s).collect()).collect())
            }
            Dtype::BF16 => {
                Self::BF16(rows.into_iter().map(|row| row.into_iter().map(bf16s).collect()).collect())
            }
        }
    }

    pub fn row(&self, i: usize) -> Row<'_> {
        match self {
            Self::F32(rows) => Row::from(&rows[i][..]),
            Self::F16(rows) => Row::from(&rows[i][..]),
            Self::BF16(rows) => Row::from(&rows[i][..]),
        }
    }

    /// Some of them, in this order.
    pub fn pick(&self, order: &[usize]) -> Self {
        match self {
            Self::F32(rows) => Self::F32(order.iter().map(|&i| rows[i].clone()).collect()),
            Self::F16(rows) => Self::F16(order.iter().map(|&i| rows[i].clone()).collect()),
            Self::BF16(rows) => Self::BF16(order.iter().map(|&i| rows[i].clone()).collect()),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::F32(rows) => rows.len(),
            Self::F16(rows) => rows.len(),
            Self::BF16(rows) => rows.len(),
        }
    }

    fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::F16(_) => Dtype::F16,
            Self::BF16(_) => Dtype::BF16,
        }
    }
}

/// Where rows lie on the device: so many logits before the first, and from one to the next; turned round, the
/// last row comes first in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lie {
    pub offset: usize,
    pub padding: usize,
    pub is_reversed: bool,
}

/// Rows on the device.
pub struct Uploaded {
    memory: Memory,
    rows: usize,
    vocabulary: usize,
    dtype: Dtype,
    lie: Lie,
    stream: Arc<CudaStream>,
}

enum Memory {
    Words(CudaSlice<u32>),
    Halves(CudaSlice<u16>),
}

/// Padding is NaN: whoever reads it is found out.
fn laid_out<T: Copy>(rows: &[Vec<T>], nan: T, lie: Lie) -> Vec<T> {
    let mut memory = vec![nan; lie.offset];
    let mut push = |row: &Vec<T>| {
        memory.extend(row);
        memory.extend(vec![nan; lie.padding]);
    };
    match lie.is_reversed {
        true => rows.iter().rev().for_each(&mut push),
        false => rows.iter().for_each(&mut push),
    }
    memory
}

fn copied<T: DeviceRepr>(stream: &Arc<CudaStream>, host: &[T]) -> CudaSlice<T> {
    let copy = stream.clone_htod(host).expect("memory");
    stream.synchronize().expect("a copy");
    copy
}

impl Uploaded {
    pub fn new(device: &Device, rows: &Rows, lie: Lie) -> Self {
        let stream = device.context().default_stream();
        let vocabulary = rows.row(0).len();
        let memory = match rows {
            Rows::F32(rows) => {
                let words: Vec<u32> = laid_out(rows, f32::NAN, lie).into_iter().map(f32::to_bits).collect();
                Memory::Words(copied(&stream, &words))
            }
            Rows::F16(rows) => {
                let halves: Vec<u16> = laid_out(rows, f16::NAN, lie).into_iter().map(f16::to_bits).collect();
                Memory::Halves(copied(&stream, &halves))
            }
            Rows::BF16(rows) => {
                let halves: Vec<u16> =
                    laid_out(rows, bf16::NAN, lie).into_iter().map(bf16::to_bits).collect();
                Memory::Halves(copied(&stream, &halves))
            }
        };
        Self { memory, rows: rows.len(), vocabulary, dtype: rows.dtype(), lie, stream }
    }

    pub fn matrix(&self, device: &Device) -> Matrix<'_> {
        let base = match &self.memory {
            Memory::Words(words) => words.device_ptr(&self.stream).0,
            Memory::Halves(halves) => halves.device_ptr(&self.stream).0,
        };
        let stride = self.vocabulary + self.lie.padding;
        let first = self.lie.offset + if self.lie.is_reversed { (self.rows - 1) * stride } else { 0 };
        let address = base + (first * self.dtype.size()) as u64;
        let stride = if self.lie.is_reversed { -(stride as i64) } else { stride as i64 };
        // SAFETY: the rows are inside the memory, which is borrowed.
        unsafe { Matrix::new(device, address, self.dtype, self.rows, self.vocabulary, stride) }
            .expect("a matrix")
    }
}

/// A grammar's mask, on both sides.
pub struct MaskPair {
    pub words: Vec<u32>,
    memory: CudaSlice<u32>,
    stream: Arc<CudaStream>,
}

impl MaskPair {
    pub fn new(device: &Device, words: Vec<u32>) -> Self {
        let stream = device.context().default_stream();
        Self { memory: copied(&stream, &words), words, stream }
    }

    pub fn mask(&self, device: &Device) -> Mask {
        let (address, _) = self.memory.device_ptr(&self.stream);
        // SAFETY: so many words are there, as long as the pair lives.
        unsafe { Mask::new(device, address, self.words.len()) }.expect("a mask")
    }
}
