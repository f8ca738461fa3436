//! The model that texts are written with: one in a folder, or the one that is part of the program.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use onedraw::Kernel;
use onedraw_lm::{
    ChatTemplate, GenerationConfig, LanguageModel, Llama, Message, ModelError, Tokenizer, stories,
};

use crate::kernel::check_kernel;

/// Which model, and on what it runs.
#[derive(Debug, Args)]
pub struct ModelFlags {
    /// A Hugging Face folder: llama, mistral, qwen2 or qwen3 [default: a small model of stories, part of the
    /// program]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Threads of the model; 0: one for each core. Changes no token
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(..=1024))]
    threads: u16,
    /// Instruction set: auto, scalar, sse, avx2, avx512 or neon. Changes no token
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    pub kernel: Kernel,
}

impl ModelFlags {
    /// The folder, if one was named.
    pub fn folder(&self) -> Option<&Path> {
        self.model.as_deref()
    }
}

/// An open model.
pub struct Model {
    pub llama: Llama,
    pub tokenizer: Arc<Tokenizer>,
    pub generation: GenerationConfig,
    /// `None`: part of the program.
    folder: Option<PathBuf>,
    /// Its instruction set and threads.
    on: (Kernel, usize),
}

impl Model {
    /// Opens the model that the flags name.
    pub fn open(flags: &ModelFlags) -> Result<Self> {
        check_kernel(flags.kernel)?;
        let (llama, tokenizer, generation) = match &flags.model {
            Some(folder) => (Llama::open(folder)?, Tokenizer::open(folder)?, GenerationConfig::open(folder)?),
            None => (stories::model()?, stories::tokenizer()?, stories::generation_config()?),
        };
        let llama = llama.on(flags.kernel, flags.threads.into())?;
        let on = (flags.kernel, usize::from(flags.threads));
        let model =
            Self { llama, tokenizer: Arc::new(tokenizer), generation, folder: flags.model.clone(), on };
        let (tokens, vocabulary) = (model.tokenizer.len(), model.llama.vocabulary());
        if tokens > vocabulary {
            bail!("{}: the tokenizer has {tokens} tokens, the model {vocabulary}", model.name());
        }
        model.load();
        Ok(model)
    }

    /// Whether it is part of the program.
    pub fn is_embedded(&self) -> bool {
        self.folder.is_none()
    }

    /// Its folder; `None`: it is part of the program.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Its instruction set and threads.
    pub fn on(&self) -> (Kernel, usize) {
        self.on
    }

    /// Another model on the same instruction set and threads.
    pub fn on_its_threads(&self, llama: Llama) -> Result<Llama, ModelError> {
        /// A model with fewer bytes of weights than this has finished a pass before another thread wakes up.
        const SMALL: usize = 2 << 20;
        let (kernel, threads) = self.on;
        let size: usize = llama.weights().map(<[u8]>::len).sum();
        llama.on(kernel, if size < SMALL { 1 } else { threads })
    }

    /// Its name in requests to a server: that of its folder.
    pub fn served_name(&self) -> String {
        let folder =
            self.folder.as_ref().map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.clone()));
        let name = folder.and_then(|folder| Some(folder.file_name()?.to_string_lossy().into_owned()));
        name.unwrap_or_else(|| "stories".to_owned())
    }

    fn name(&self) -> String {
        self.folder.as_ref().map_or("the model of stories".to_owned(), |folder| folder.display().to_string())
    }

    /// Reads the weights from the disk while a progress bar is shown, if standard error is a terminal and the
    /// model is large. Otherwise the first pass reads them.
    fn load(&self) {
        /// The bytes from which reading takes long enough to show a bar, and the step of the bar.
        const MANY: usize = 64 << 20;
        /// The size of a page of memory.
        const PAGE: usize = 4 << 10;
        let size: usize = self.llama.weights().map(<[u8]>::len).sum();
        if size < MANY || !std::io::stderr().is_terminal() {
            return;
        }
        let bar = bar(size, "loading the model {bar:40} {bytes}/{total_bytes}");
        for part in self.llama.weights().flat_map(|weights| weights.chunks(MANY)) {
            // Touching one byte of a page loads all of it.
            std::hint::black_box(part.iter().step_by(PAGE).fold(0, |all, byte| all ^ byte));
            bar.inc(part.len() as u64);
        }
        bar.finish_and_clear();
    }

    /// The form in which the model expects a chat, if it has one.
    pub fn template(&self) -> Result<Option<ChatTemplate>, ModelError> {
        match &self.folder {
            Some(folder) => ChatTemplate::open(folder),
            None => stories::chat_template().map(Some),
        }
    }

    /// A chat of a system prompt, if there is one, and a message, written by the model's template.
    pub fn chat(&self, system: Option<&str>, message: &str) -> Result<String> {
        let template = self.template()?;
        let template = template.ok_or_else(|| anyhow!("--chat: {} has no chat template", self.name()))?;
        let mut messages = Vec::new();
        messages.extend(system.map(|system| Message::new("system", system)));
        messages.push(Message::new("user", message));
        Ok(template.render(&messages, true)?)
    }
}

/// A progress bar on standard error.
pub fn bar(length: usize, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length as u64).with_style(style)
}

/// Enough of a hash to tell it from another.
pub fn short(hash: &str) -> String {
    let start: String = hash.chars().take(12).collect();
    if start.len() < hash.len() { format!("{start}…") } else { start }
}
