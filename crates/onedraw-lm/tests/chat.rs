//! Chats as the templates of well-known models write them.

use std::fs;

use onedraw_lm::{ChatTemplate, Message, ModelError};
use serde_json::{Value, json};
use tempfile::TempDir;

/// SmolLM2's and, but for the text of the system, Qwen2's.
const CHATML: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Llama 3.2's, without tools.
const LLAMA: &str = r#"{{- bos_token }}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- This block extracts the system message, so we can slot it into the right place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{#- System message #}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\n" }}
{{- "Today Date: " + date_string + "\n\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}

{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {{- raise_exception("This model only supports single tool-calls at once!") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"#;

/// Mistral 7B Instruct v0.2's.
const MISTRAL: &str = r"{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('After the optional system message, conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {%- if loop.first and system_message is defined %}
            {{- ' [INST] ' + system_message + '\n\n' + message['content'] + ' [/INST]' }}
        {%- else %}
            {{- ' [INST] ' + message['content'] + ' [/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] + eos_token}}
    {%- else %}
        {{- raise_exception('Only user and assistant roles are supported, with the exception of an initial optional system message!') }}
    {%- endif %}
{%- endfor %}
";

fn folder(config: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    folder
}

fn opened(config: &Value) -> Result<Option<ChatTemplate>, ModelError> {
    ChatTemplate::open(folder(config).path())
}

fn template(source: &str) -> ChatTemplate {
    opened(&json!({"chat_template": source, "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}}))
        .unwrap()
        .unwrap()
}

fn chat(messages: &[(&str, &str)]) -> Vec<Message> {
    messages.iter().map(|&(role, content)| Message::new(role, content)).collect()
}

/// A template with no messages.
fn rendered(source: &str) -> Result<String, String> {
    template(source).render(&[], false).map_err(|error| error.to_string())
}

#[test]
fn chatml() {
    let template = template(CHATML);
    let system = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n";
    let messages = chat(&[("user", "Hi & <bye>!\n"), ("assistant", "Hello"), ("user", "")]);
    let turns = "<|im_start|>user\nHi & <bye>!\n<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\n<|im_end|>\n";
    assert_eq!(template.render(&messages, true).unwrap(), format!("{system}{turns}<|im_start|>assistant\n"));
    assert_eq!(template.render(&messages, false).unwrap(), format!("{system}{turns}"));
    let messages = chat(&[("system", "Be brief."), ("user", "{{ bos_token }}")]);
    assert_eq!(
        template.render(&messages, true).unwrap(),
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{{ bos_token }}<|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn llama() {
    let template = template(LLAMA).at(1_721_988_000);
    let head = "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
    let messages = chat(&[("system", " Be brief. "), ("user", " Hi\n")]);
    let expected = format!(
        "{head}Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\n"
    );
    assert_eq!(template.render(&messages, true).unwrap(), expected);
    let expected = format!("{head}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>");
    assert_eq!(template.render(&messages[1..], false).unwrap(), expected);
}

#[test]
fn mistral() {
    let template = template(MISTRAL);
    let messages = chat(&[("system", "S"), ("user", "A"), ("assistant", "B"), ("user", "C")]);
    assert_eq!(template.render(&messages, true).unwrap(), "<s> [INST] S\n\nA [/INST] B</s> [INST] C [/INST]");
    let error = template.render(&chat(&[("user", "A"), ("user", "B")]), true).unwrap_err();
    assert!(matches!(error, ModelError::Request(_)), "{error:?}");
    let message = error.to_string();
    let expected = "tokenizer_config.json: `chat_template`, line 11: After the optional system message, conversation roles \
                    must alternate user/assistant/user/assistant/...";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn a_file_of_its_own_goes_first() {
    let folder = folder(&json!({"chat_template": "config", "bos_token": "<s>"}));
    fs::write(folder.path().join("chat_template.jinja"), "file {{ bos_token }}{{ eos_token }}\n").unwrap();
    let template = ChatTemplate::open(folder.path()).unwrap().unwrap();
    assert_eq!(template.render(&[], false).unwrap(), "file <s>");
    fs::remove_file(folder.path().join("tokenizer_config.json")).unwrap();
    let template = ChatTemplate::open(folder.path()).unwrap().unwrap();
    assert_eq!(template.render(&[], false).unwrap(), "file ");
    fs::write(folder.path().join("chat_template.jinja"), "one\n{% if %}").unwrap();
    let error = ChatTemplate::open(folder.path()).err().unwrap();
    assert!(
        matches!(&error, ModelError::Malformed { path, .. } if path.ends_with("chat_template.jinja")),
        "{error}"
    );
    assert!(error.to_string().contains("chat_template.jinja: line 2: syntax error: "), "{error}");
}

#[test]
fn where_the_template_is() {
    assert!(ChatTemplate::open(tempfile::tempdir().unwrap().path()).unwrap().is_none());
    for config in [json!({}), json!({"chat_template": null, "bos_token": null})] {
        assert!(opened(&config).unwrap().is_none());
    }
    let named = |name: &str| json!({"name": name, "template": format!("the {name} one")});
    let template = opened(&json!({"chat_template": [named("rag"), named("default")]})).unwrap().unwrap();
    assert_eq!(template.render(&[], true).unwrap(), "the default one");
    let error =
        opened(&json!({"chat_template": [named("rag"), named("tool_use")]})).err().unwrap().to_string();
    assert!(error.ends_with("`chat_template` has no `default` among `rag`, `tool_use`"), "{error}");
    for config in [json!({"chat_template": 3}), json!({"bos_token": ["<s>"]}), json!([3])] {
        let error = opened(&config).err().unwrap();
        assert!(
            matches!(&error, ModelError::Malformed { path, .. } if path.ends_with("tokenizer_config.json")),
            "{error}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tokenizer_config.json"), "{").unwrap();
    assert!(matches!(ChatTemplate::open(folder.path()), Err(ModelError::Malformed { .. })));
}

#[test]
fn the_environment_is_that_of_transformers() {
    for (source, expected) in [
        ("  {% if true %}\n a\n  {% endif %}\nb\n", " a\nb"),
        (
            "{{ ' a '.strip() }}{{ 'a-b'.split('-')[1] }}{{ 'ab'.startswith('a') }}{{ {'k': 1}.items()|list|length }}",
            "abTrue1",
        ),
        (
            "{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
            "02",
        ),
        (
            "{{ tools is none }} {{ documents is none }} {{ unk_token is defined }} {{ pad_token }}",
            "True True False ",
        ),
        ("{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}", "<s></s>False"),
        (r#"{{ {"b": "é<", "a": [1]}|tojson }}"#, r#"{"b": "é<", "a": [1]}"#),
        ("{{ messages|tojson(indent=2) }}{{ [1]|tojson(indent=1) }}", "[][\n 1\n]"),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('a') }}", "<a>"),
        (
            "{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
            "3",
        ),
        ("a\n{%- generation %}\n b\n{%- endgeneration -%}\nc", "a bc"),
        (
            "{% generation %}{% endgeneration %} generation {% if true -%} generation{% endif %}",
            " generation generation",
        ),
    ] {
        assert_eq!(rendered(source), Ok(expected.to_owned()), "{source}");
    }
    let messages = [Message::new("user", "é \"")];
    assert_eq!(
        template("{{ messages|tojson }}").render(&messages, true).unwrap(),
        r#"[{"role": "user", "content": "é \""}]"#
    );
    // The system's clock: this year or a later one.
    assert!(rendered("{{ strftime_now('%Y') }}").unwrap().parse::<u32>().unwrap() >= 2025);
}

#[test]
fn what_goes_wrong_is_told_with_its_line() {
    for (source, expected) in [
        ("a\n{{ raise_exception('No!') }}", "line 2: No!"),
        ("\n\n{{ messages[0].content }}", "line 3: undefined value"),
        ("{{ strftime_now('%Q') }}", "line 1: strftime_now: `%Q` is not known here"),
        ("{{ 'a'.nothing() }}", "line 1: unknown method: string has no method named nothing"),
        ("{{ nothing() }}", "line 1: unknown function: nothing is unknown"),
        (
            "{% include 'other' %}",
            "line 1: template not found: tried to include non-existing template 'other'",
        ),
    ] {
        let message = rendered(source).unwrap_err();
        assert!(
            message.contains(&format!("tokenizer_config.json: `chat_template`, {expected}")),
            "{message}"
        );
    }
    for source in ["{% for %}", "{% if true %}", "{{ 'a }}", "{% unknown %}", "{{ a | no_such_filter }}"] {
        let config = json!({"chat_template": source});
        let message = match opened(&config) {
            Err(error) => error.to_string(),
            Ok(template) => template.unwrap().render(&[], true).unwrap_err().to_string(),
        };
        assert!(message.contains("tokenizer_config.json: `chat_template`, line 1: "), "{message}");
    }
}

#[test]
fn no_template_runs_for_ever() {
    let nested = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}";
    for (source, expected) in [
        ("{% for i in range(10**9) %}{{ i }}{% endfor %}", "range has too many elements"),
        (nested, "takes more than 250000 instructions"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion limit exceeded"),
        ("{% include 'chat' %}", "could not render include"),
        // 2^40 calls, none of them deep.
        (
            "{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
            "takes more than 250000 instructions",
        ),
        ("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "recursion limit exceeded"),
    ] {
        let message = rendered(source).unwrap_err();
        assert!(message.contains(expected), "{source}: {message}");
    }
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(opened(&json!({"chat_template": format!("{{{{ {deep} }}}}")})).is_err());
}

#[test]
fn thousands_of_messages() {
    let messages = vec![Message::new("user", "Hi"); 5_000];
    let turn = "<|im_start|>user\nHi<|im_end|>\n";
    let text = template(CHATML).render(&messages, false).unwrap();
    assert!(text.ends_with(&turn.repeat(5_000)));
    let text = template(LLAMA).render(&messages, false).unwrap();
    assert_eq!(text.matches("user<|end_header_id|>\n\nHi<|eot_id|>").count(), 5_000);
}

/// Each of these overflowed the stack, which ends the process.
#[test]
fn nothing_nests_until_the_stack_overflows() {
    let loops = |value: &str, then: &str| {
        format!(
            "{{% set ns = namespace(v=1) %}}{{% for i in range(20000) %}}{{% set ns.v = {value} %}}{{% endfor %}}{then}"
        )
    };
    for (source, length) in [
        (loops("[ns.v]", ""), 0),
        (loops("{'a': ns.v}", ""), 0),
        (loops("namespace(v=ns.v)", ""), 0),
        (loops("[ns.v]", "{{ ns.v }}"), 40_001),
        (loops("[ns.v]", "{{ [ns.v] == [[ns.v[0]]] }}"), 4),
        // In every call of a macro, fifty levels.
        (
            format!(
                "{{% macro m(x, n) %}}{{% if n > 0 %}}{{{{ m({}x{}, n - 1) }}}}{{% endif %}}{{% endmacro %}}{{{{ m(1, 80) }}}}",
                "[".repeat(50),
                "]".repeat(50)
            ),
            0,
        ),
    ] {
        assert_eq!(rendered(&source).map(|text| text.len()), Ok(length), "{source}");
    }
    for (tail, expected) in [("|string", Ok("1".to_owned())), ("+1", Ok("20001".to_owned()))] {
        assert_eq!(rendered(&format!("{{{{ 1{} }}}}", tail.repeat(20_000))), expected, "{tail}");
    }
    let message = rendered(&format!("{{{{ a{} }}}}", "()".repeat(130_000))).unwrap_err();
    assert!(message.ends_with("line 1: unknown function: a is unknown"), "{message}");
    let message = opened(&json!({"chat_template": " ".repeat(262_145)})).err().unwrap().to_string();
    assert!(message.ends_with("`chat_template`, a template of 262145 bytes, more than 262144"), "{message}");
}

#[test]
fn a_namespace_may_contain_itself() {
    let cycle = "{% set a = namespace() %}{% set a.v = [a] %}{% set b = namespace() %}{% set b.v = [b] %}";
    for (source, expected) in [
        ("{{ a }} {{ a.v }}", "<namespace> [<namespace>]"),
        ("{{ a == b }} {{ a == a }} {{ a.v == b.v }} {{ a in b.v }}", "True True True True"),
        ("{{ {a: 1}|length }} {{ a ~ '' }} {{ [a, b]|unique|list|length }}", "1 <namespace> 1"),
    ] {
        assert_eq!(rendered(&format!("{cycle}{source}")), Ok(expected.to_owned()), "{source}");
    }
}

#[test]
fn namespaces() {
    for (source, expected) in [
        (
            "{% set n = namespace({'a': 1}, b=2) %}{{ n.a }}{{ n['b'] }}{{ n.c }}{{ n.c is defined }}",
            "12False",
        ),
        ("{% set n = namespace() %}{%- set n.a = 1, 2 -%} {{ n.a[1] }}", "2"),
        ("{% set n = namespace() %}{% set n.a = namespace() %}{% set n.a.b = '%}' %}{{ n.a.b }}", "%}"),
        ("{% set n = namespace() %}{% set n.a %}x{% set b %}y{% endset %}{{ b }}{% endset %}{{ n.a }}", "xy"),
        (
            "{% set n = namespace() %}{% set a, b = 1, 2 %}{% set n.a | upper %}x{% endset %}{{ n.a }}{{ b }}",
            "X2",
        ),
    ] {
        assert_eq!(rendered(source), Ok(expected.to_owned()), "{source}");
    }
    for (source, expected) in [
        ("\n{% set m = {} %}{% set m.a = 1 %}", "line 2: can only assign to namespaces, not map"),
        ("\n{% set\nm.a\n=\n1 %}", "line 5: can only assign to namespaces, not undefined"),
        ("{% set n = namespace({1: 2}) %}", "line 1: namespace: the map has a key that is no string"),
    ] {
        let message = rendered(source).unwrap_err();
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn messages_are_json() {
    let messages: Vec<Message> = serde_json::from_str(r#"[{"role": "user", "content": "Hi"}]"#).unwrap();
    assert_eq!(messages, chat(&[("user", "Hi")]));
    assert_eq!(serde_json::to_string(&messages).unwrap(), r#"[{"role":"user","content":"Hi"}]"#);
}
