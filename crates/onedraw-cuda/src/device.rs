//! A CUDA device with the kernels on it.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute, CUfunction, CUfunction_attribute, CUmodule};
use cudarc::driver::{CudaContext, CudaStream, result};

use crate::dtype::Dtype;
use crate::error::CudaError;
use crate::kernel::{Kernel, RequestKernel, SKYLINES};
use crate::launch::{self, Grid};
use crate::record::layout::{RequestArguments, ReviseArguments, StepArguments};
use crate::stream::Stream;

/// The driver version that the kernels are built for, as 1000 · major + 10 · minor: `kernels/compile` uses
/// CUDA 13.0.
const NEEDED: u32 = 13_000;
/// The oldest compute capability that the kernels are built for (`kernels/compile`).
const OLDEST: (i32, i32) = (8, 0);
/// The image of the kernels. The driver reads its headers in place, so they must be aligned.
#[repr(C, align(16))]
struct Aligned<B: ?Sized>(B);

static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("../kernels/onedraw.fatbin"));

/// A device that can draw. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Device(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    context: Arc<CudaContext>,
    /// For copies that must have arrived before anyone goes on. It does not wait for other streams.
    uploads: Arc<CudaStream>,
    /// Keeps the kernels loaded.
    _module: Module,
    kernels: Kernels,
    /// Whether a kernel may be launched so that it begins before the one before it has ended, and waits for
    /// it by itself. Only machine code for compute capability 9.0 waits; what the driver makes from PTX does
    /// not.
    begins_early: bool,
    /// Bytes of dynamic shared memory that a draw may have.
    draw_memory: usize,
    /// The same of the kernel that makes a rank's first messages.
    open_memory: usize,
    /// The number of multiprocessors.
    processors: usize,
}

/// The kernels, by type in the order of [`Dtype::ALL`].
#[derive(Debug)]
struct Kernels {
    skyline: [[CUfunction; SKYLINES.len()]; 3],
    draw: [CUfunction; 3],
    draw_bare: [CUfunction; 3],
    draw_staged: [CUfunction; 3],
    draw_edited: [CUfunction; 3],
    /// For rows that are aligned, and for any rows.
    gauge: [[CUfunction; 3]; 2],
    weigh: [[CUfunction; 3]; 2],
    raw_logprobs: [CUfunction; 3],
    report: [CUfunction; 3],
    list_all: [CUfunction; 3],
    sum_prompt: [[CUfunction; 3]; 2],
    tell_prompt: [CUfunction; 3],
    repeat: CUfunction,
    append: CUfunction,
    judge: CUfunction,
    ask: [CUfunction; 3],
    follow: CUfunction,
    settle: CUfunction,
    open: [CUfunction; 3],
    append_each: CUfunction,
    repeat_each: CUfunction,
    revise_each: CUfunction,
}

// SAFETY: it holds handles of the driver, which any thread may use once the context is bound to it. Nothing
// changes them.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// The image on the device. Dropping it unloads the image.
#[derive(Debug)]
struct Module {
    context: Arc<CudaContext>,
    handle: CUmodule,
}

impl Module {
    fn load(context: &Arc<CudaContext>) -> Result<Self, CudaError> {
        context.bind_to_thread().map_err(CudaError::launch)?;
        // SAFETY: the image is complete and static.
        let handle = unsafe { result::module::load_data(IMAGE.0.as_ptr().cast()) };
        Ok(Self { context: context.clone(), handle: handle.map_err(CudaError::launch)? })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: loaded once, unloaded once; whoever launches a kernel holds the device.
            let _ = unsafe { result::module::unload(self.handle) };
        }
    }
}

impl Device {
    /// Device number `ordinal`, as the driver counts them. It is an error if there is no driver, or no such
    /// device, or either is older than the kernels.
    pub fn new(ordinal: usize) -> Result<Self, CudaError> {
        // SAFETY: it looks for the driver's library and loads it, as every other call would.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        let found = driver_version()?;
        if found < NEEDED {
            return Err(CudaError::OldDriver { found, needed: NEEDED });
        }
        let count = device_count()?;
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let context = CudaContext::new(ordinal).map_err(CudaError::launch)?;
        let (major, minor) = context.compute_capability().map_err(CudaError::launch)?;
        if (major, minor) < OLDEST {
            let name = context.name().unwrap_or_else(|_| format!("device {ordinal}"));
            return Err(CudaError::OldDevice { name, major: major as u32, minor: minor as u32 });
        }
        let uploads = context.new_stream().map_err(CudaError::launch)?;
        let module = Module::load(&context)?;
        let kernels = Kernels::find(module.handle)?;
        let Kernels { draw, draw_bare, draw_staged, draw_edited, raw_logprobs, tell_prompt, .. } = &kernels;
        let draws = [draw, draw_bare, draw_staged, draw_edited, raw_logprobs, tell_prompt];
        let draw_memory = allow_memory(&context, draws.into_iter().flatten())?;
        let open_memory = allow_memory(&context, &kernels.open)?;
        let begins_early = major == 9;
        let processors = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let processors = context.attribute(processors).map_err(CudaError::launch)?.max(1) as usize;
        Ok(Self(Arc::new(Loaded {
            context,
            uploads,
            _module: module,
            kernels,
            begins_early,
            draw_memory,
            open_memory,
            processors,
        })))
    }

    /// The number of its multiprocessors.
    pub(crate) fn processors(&self) -> usize {
        self.0.processors
    }

    /// Its number.
    pub fn ordinal(&self) -> usize {
        self.0.context.ordinal()
    }

    /// Its context, the primary one, which other libraries share.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.0.context
    }

    /// The most logits that a row may have on this device: what a draw knows of a row's blocks must fit the
    /// shared memory of a multiprocessor.
    pub fn max_vocabulary(&self) -> usize {
        launch::max_vocabulary(self.0.draw_memory)
    }

    /// The most logits that a rank's part of a row may have on this device.
    pub(crate) fn max_part(&self) -> usize {
        launch::max_part(self.0.open_memory)
    }

    pub(crate) fn uploads(&self) -> Stream<'_> {
        Stream::from(&self.0.uploads)
    }

    /// The stream, if it is not one of another device. Copies on such a stream would work, and launches fail.
    pub(crate) fn admit<'a>(&self, stream: impl Into<Stream<'a>>) -> Result<Stream<'a>, CudaError> {
        let (stream, needed) = (stream.into(), self.ordinal());
        let own = self.0.context.cu_device();
        let of_handle = || stream.device().filter(|&device| device != own).and_then(ordinal_of);
        match stream.ordinal().or_else(of_handle) {
            Some(ordinal) if ordinal != needed => Err(CudaError::OtherStream { ordinal, needed }),
            _ => Ok(stream),
        }
    }

    /// Waits until the device has done everything.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        self.0.context.synchronize().map_err(CudaError::launch)
    }

    /// Checks that an address is memory of this device, or managed memory, and a multiple of an element's
    /// size.
    pub(crate) fn check(&self, address: u64, size: usize) -> Result<(), CudaError> {
        if !address.is_multiple_of(size as u64) {
            return Err(CudaError::Misaligned { address, size });
        }
        if address == 0 {
            return Err(CudaError::NullAddress);
        }
        self.0.context.bind_to_thread().map_err(CudaError::launch)?;
        let ours = (memory_type(address), memory_ordinal(address));
        let device = sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE as u32;
        let unified = sys::CUmemorytype_enum::CU_MEMORYTYPE_UNIFIED as u32;
        match ours {
            (Some(kind), _) if kind == unified => Ok(()),
            (Some(kind), Some(ordinal)) if kind == device && ordinal == self.ordinal() as i32 => Ok(()),
            _ => Err(CudaError::NotOnDevice { address }),
        }
    }

    /// The kernel that answers questions about a part of a row.
    pub(crate) fn ask(&self, dtype: Dtype) -> CUfunction {
        self.0.kernels.ask[dtype as usize]
    }

    /// The kernel that makes a rank's first messages.
    pub(crate) fn open(&self, dtype: Dtype) -> CUfunction {
        self.0.kernels.open[dtype as usize]
    }

    /// The kernel that appends tokens to the sequences of a rank.
    pub(crate) fn append_each(&self) -> CUfunction {
        self.0.kernels.append_each
    }

    /// The kernel that finds what texts repeat, of sequences that do not lie together.
    pub(crate) fn repeat_each(&self) -> CUfunction {
        self.0.kernels.repeat_each
    }

    /// Launches a kernel of a step, and does not wait for it.
    ///
    /// # Safety
    ///
    /// Every address of the arguments is device memory, as large as the arguments say, until the kernel has
    /// run.
    pub(crate) unsafe fn launch(
        &self,
        stream: Stream<'_>,
        kernel: Kernel,
        grid: Grid,
        arguments: &StepArguments,
    ) -> Result<(), CudaError> {
        let Kernels { skyline, gauge, draw, draw_bare, draw_staged, draw_edited, weigh, .. } =
            &self.0.kernels;
        let Kernels { raw_logprobs, report, list_all, sum_prompt, tell_prompt, .. } = &self.0.kernels;
        let function = match kernel {
            Kernel::Skyline(dtype, form) => skyline[dtype as usize][form],
            Kernel::Gauge(dtype, is_aligned) => gauge[usize::from(!is_aligned)][dtype as usize],
            Kernel::Draw(dtype) => draw[dtype as usize],
            Kernel::DrawBare(dtype) => draw_bare[dtype as usize],
            Kernel::DrawStaged(dtype) => draw_staged[dtype as usize],
            Kernel::DrawEdited(dtype) => draw_edited[dtype as usize],
            Kernel::Weigh(dtype, is_aligned) => weigh[usize::from(!is_aligned)][dtype as usize],
            Kernel::RawLogprobs(dtype) => raw_logprobs[dtype as usize],
            Kernel::Report(dtype) => report[dtype as usize],
            Kernel::ListAll(dtype) => list_all[dtype as usize],
            Kernel::SumPrompt(dtype, is_aligned) => sum_prompt[usize::from(!is_aligned)][dtype as usize],
            Kernel::TellPrompt(dtype) => tell_prompt[dtype as usize],
            Kernel::Repeat => self.0.kernels.repeat,
            Kernel::Append => self.0.kernels.append,
            Kernel::Judge => self.0.kernels.judge,
        };
        let waits_itself = !matches!(kernel, Kernel::Append | Kernel::Judge);
        // SAFETY: these kernels take this struct; the rest is the caller's promise.
        unsafe { self.launch_function(stream, function, grid, waits_itself, arguments) }
    }

    /// Launches a kernel for requests, and does not wait for it.
    ///
    /// # Safety
    ///
    /// As for [`Device::launch`].
    pub(crate) unsafe fn launch_requests(
        &self,
        stream: Stream<'_>,
        kernel: RequestKernel,
        grid: Grid,
        arguments: &RequestArguments,
    ) -> Result<(), CudaError> {
        let (function, waits_itself) = match kernel {
            RequestKernel::Follow => (self.0.kernels.follow, false),
            RequestKernel::Settle => (self.0.kernels.settle, true),
        };
        // SAFETY: as above.
        unsafe { self.launch_function(stream, function, grid, waits_itself, arguments) }
    }

    /// Launches the kernel that changes sequences, and does not wait for it.
    ///
    /// # Safety
    ///
    /// As for [`Device::launch`].
    pub(crate) unsafe fn launch_revise(
        &self,
        stream: Stream<'_>,
        grid: Grid,
        arguments: &ReviseArguments,
    ) -> Result<(), CudaError> {
        // SAFETY: as above.
        unsafe { self.launch_function(stream, self.0.kernels.revise_each, grid, false, arguments) }
    }

    /// Launches a kernel with its one argument. If it waits for the kernel before it by itself, it may begin
    /// before that one has ended, and until it waits it does what needs nothing of it.
    ///
    /// # Safety
    ///
    /// The kernel takes such an argument, and its addresses are as for [`Device::launch`].
    unsafe fn launch_function<A: Copy>(
        &self,
        stream: Stream<'_>,
        function: CUfunction,
        grid: Grid,
        waits_itself: bool,
        arguments: &A,
    ) -> Result<(), CudaError> {
        self.0.context.bind_to_thread().map_err(CudaError::launch)?;
        let mut arguments = *arguments;
        let mut parameters = [(&raw mut arguments).cast()];
        let mut early = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: Default::default(),
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: grid.blocks.0,
            gridDimY: grid.blocks.1,
            gridDimZ: 1,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.memory,
            hStream: stream.raw(),
            attrs: &raw mut early,
            numAttrs: (self.0.begins_early && waits_itself).into(),
        };
        // SAFETY: the driver copies the argument before it returns. The rest is the caller's promise.
        unsafe { sys::cuLaunchKernelEx(&config, function, parameters.as_mut_ptr(), std::ptr::null_mut()) }
            .result()
            .map_err(CudaError::launch)
    }
}

impl Kernels {
    fn find(module: CUmodule) -> Result<Self, CudaError> {
        let find = |name: String| {
            let missing = |why: &dyn std::fmt::Display| CudaError::Launch(format!("kernel {name}: {why}"));
            let text = CString::new(name.as_str()).map_err(|error| missing(&error))?;
            // SAFETY: the module was loaded and is not unloaded yet.
            unsafe { result::module::get_function(module, text) }.map_err(|error| missing(&error))
        };
        let of_types = |name: &str, form: &str| -> Result<[CUfunction; 3], CudaError> {
            let [a, b, c] = Dtype::ALL.map(|dtype| find(format!("{name}_{}{form}", dtype.name())));
            Ok([a?, b?, c?])
        };
        let mut skyline = [[std::ptr::null_mut(); SKYLINES.len()]; 3];
        for (forms, dtype) in skyline.iter_mut().zip(Dtype::ALL) {
            for (function, form) in forms.iter_mut().zip(SKYLINES) {
                *function = find(format!("skyline_{}_{}", dtype.name(), form.name))?;
            }
        }
        Ok(Self {
            skyline,
            draw: of_types("draw", "")?,
            draw_bare: of_types("draw", "_bare")?,
            draw_staged: of_types("draw", "_staged")?,
            draw_edited: of_types("draw", "_edited")?,
            gauge: [of_types("gauge", "")?, of_types("gauge", "_any")?],
            weigh: [of_types("weigh", "")?, of_types("weigh", "_any")?],
            raw_logprobs: of_types("tell", "")?,
            report: of_types("report", "")?,
            list_all: of_types("list_all", "")?,
            sum_prompt: [of_types("sum_prompt", "")?, of_types("sum_prompt", "_any")?],
            tell_prompt: of_types("tell_prompt", "")?,
            repeat: find("repeat".into())?,
            append: find("append".into())?,
            judge: find("judge".into())?,
            ask: of_types("ask", "")?,
            follow: find("follow".into())?,
            settle: find("settle".into())?,
            open: of_types("open", "")?,
            append_each: find("append_each".into())?,
            repeat_each: find("repeat_each".into())?,
            revise_each: find("revise_each".into())?,
        })
    }
}

/// Lets kernels have all the shared memory there is; returns how many bytes that leaves each of them beside
/// what it always has.
fn allow_memory<'f>(
    context: &CudaContext,
    functions: impl IntoIterator<Item = &'f CUfunction>,
) -> Result<usize, CudaError> {
    let most = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    let most = context.attribute(most).map_err(CudaError::launch)?;
    let own = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let mut least = i32::MAX;
    for &function in functions {
        // SAFETY: a function of the module that was just loaded.
        let left = unsafe {
            let left =
                most - result::function::get_function_attribute(function, own).map_err(CudaError::launch)?;
            result::function::set_function_attribute(function, dynamic, left).map_err(CudaError::launch)?;
            left
        };
        least = least.min(left);
    }
    Ok(least.max(0) as usize)
}

fn driver_version() -> Result<u32, CudaError> {
    let mut version = 0;
    // SAFETY: it writes one integer, and may be called before anything else.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(CudaError::launch)?;
    Ok(version.max(0) as u32)
}

/// The number of devices. The driver returns an error where there is none.
fn device_count() -> Result<usize, CudaError> {
    match result::init().and_then(|()| result::device::get_count()) {
        Ok(count) => Ok(count.max(0) as usize),
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => Ok(0),
        Err(error) => Err(CudaError::launch(error)),
    }
}

/// The number of a device that the driver has a handle for.
fn ordinal_of(device: CUdevice) -> Option<usize> {
    (0..device_count().ok()?).find(|&ordinal| result::device::get(ordinal as i32) == Ok(device))
}

/// The kind of memory at an address; `None` if the driver does not know it.
fn memory_type(address: u64) -> Option<u32> {
    let mut kind = 0u32;
    let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    // SAFETY: it writes one 32-bit number and does not follow the address.
    unsafe { sys::cuPointerGetAttribute((&raw mut kind).cast(), attribute, address) }.result().ok()?;
    Some(kind)
}

/// The device of the memory at an address.
fn memory_ordinal(address: u64) -> Option<i32> {
    let mut ordinal = -1i32;
    let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: as above.
    unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, address) }.result().ok()?;
    Some(ordinal)
}
