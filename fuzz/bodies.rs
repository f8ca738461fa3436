//! The body of the target `bodies`: requests to the server. It is included by path, by the target and by the test of
//! `onedraw-serve` that replays the corpus.

use std::sync::{Arc, OnceLock};

use onedraw_lm::stories;
use onedraw_serve::{Interface, Limits, Model, Reader};

/// The first byte chooses the interface, the rest is the body: no panic, the same answer twice, and an error is one of
/// the request, in OpenAI's form.
pub fn bodies(data: &[u8]) {
    static READER: OnceLock<Reader> = OnceLock::new();
    let reader = READER.get_or_init(|| {
        let (llama, tokenizer) =
            (stories::model().expect("a model"), stories::tokenizer().expect("a tokenizer"));
        let model = Model::new("stories", llama, tokenizer, stories::generation_config().expect("settings"));
        let model = model.with_template(stories::chat_template().expect("a template"));
        Reader::new(Arc::new(model), Limits::default())
    });
    let Some((first, body)) = data.split_first() else { return };
    let interface = [Interface::Completions, Interface::Chat, Interface::Responses][usize::from(first % 3)];
    let read = reader.check(interface, body);
    assert_eq!(reader.check(interface, body), read);
    if let Err(failure) = read {
        assert!([400, 404].contains(&failure.status.as_u16()), "{failure:?}");
        assert!(!failure.message.is_empty());
    }
}
